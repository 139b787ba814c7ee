// SPDX-License-Identifier: Apache-2.0

//go:build linux

package command

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, is := w.(*os.File)
	if !is {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// SupportsColour reports whether colours may be written to w: w is a terminal, NO_COLOR
// is not set (no-color.org), and the terminal is not dumb.
func SupportsColour(w io.Writer) bool {
	return IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// TerminalSize returns the columns and rows of a terminal. Both are 0 if the size is
// unknown or w is not a terminal.
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
