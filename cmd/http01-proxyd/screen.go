// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/command"
)

// What a terminal is told, in the terms of xterm's ctlseqs: every terminal that
// is in use understands these.
const (
	alternateScreen = "\x1b[?1049h" // the alternate screen: what stood there comes back
	normalScreen    = "\x1b[?1049l"
	hideCursor      = "\x1b[?25l"
	showCursor      = "\x1b[?25h"
	disableWrap     = "\x1b[?7l" // a line that is too long all the same stays one
	enableWrap      = "\x1b[?7h"
	cursorHome      = "\x1b[H"
	clearRight      = "\x1b[K" // to the end of the line
	clearBelow      = "\x1b[J" // from here to the end of the screen
)

// runOnTerminal reports whether w is a terminal in which lines can be replaced.
func canRepaint(w io.Writer) bool {
	return command.IsTerminal(w) && os.Getenv("TERM") != "dumb"
}

// screen is a terminal while it is ours.
type screen struct {
	out io.Writer
}

// A terminal that does not tell its size is taken for the one of old.
const (
	defaultColumns = 80
	defaultRows    = 24
)

// size is the room for a text. The last column is left empty: a cursor that has
// filled it stays on it, where clearRight would clear what was written.
func (s screen) size() (columns, rows int) {
	columns, rows = command.TerminalSize(s.out)
	if columns == 0 {
		columns, rows = defaultColumns, defaultRows
	}
	return max(1, columns-1), rows
}

func (s screen) enter() error { return s.write(alternateScreen + hideCursor + disableWrap) }

func (s screen) leave() error { return s.write(enableWrap + showCursor + normalScreen) }

// draw replaces what is there. It is one write, and erases nothing before the
// new text is there, so that nothing flickers. Lines that have no place are left
// out.
func (s screen) draw(text string) error {
	_, rows := s.size()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) > rows {
		lines = append(lines[:rows-1], fmt.Sprintf("… and %d lines more", len(lines)-rows+1))
	}
	// Between the lines only: behind the last row, a new line would scroll.
	return s.write(cursorHome + strings.Join(lines, clearRight+"\r\n") + clearRight + clearBelow)
}

func (s screen) write(sequence string) error {
	if _, err := io.WriteString(s.out, sequence); err != nil {
		return fmt.Errorf("write to the terminal: %w", err)
	}
	return nil
}
