// SPDX-License-Identifier: Apache-2.0

package command

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// IsTerminal reports whether w is one.
func IsTerminal(w io.Writer) bool {
	f, is := w.(*os.File)
	if !is {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// SupportsColour reports whether w takes colours: a terminal does, unless NO_COLOR is set
// (no-color.org) or it is a dumb one.
func SupportsColour(w io.Writer) bool {
	return IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// TerminalSize is how many columns and rows the terminal w has. One that does not know
// has 0 of both, and so has what is none.
func TerminalSize(w io.Writer) (columns, rows int) {
	f, is := w.(*os.File)
	if !is {
		return 0, 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 || size.Row == 0 {
		return 0, 0
	}
	return int(size.Col), int(size.Row)
}
