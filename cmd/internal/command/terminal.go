// SPDX-License-Identifier: Apache-2.0

package command

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Terminal reports whether w is one.
func Terminal(w io.Writer) bool {
	f, is := w.(*os.File)
	if !is {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Colour reports whether w takes colours: a terminal does, unless NO_COLOR is set
// (no-color.org) or it is a dumb one.
func Colour(w io.Writer) bool {
	return Terminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Width is how many characters a line of w takes; 0 when w is no terminal or does
// not say.
func Width(w io.Writer) int {
	f, is := w.(*os.File)
	if !is {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
