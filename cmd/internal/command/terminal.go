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
