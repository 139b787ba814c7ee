// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
)

// Control sequences (xterm's ctlseqs) that all terminals in use support.
const (
	alternateScreen = "\x1b[?1049h" // the alternate screen: the previous contents return after it
	normalScreen    = "\x1b[?1049l"
	hideCursor      = "\x1b[?25l"
	showCursor      = "\x1b[?25h"
	disableWrap     = "\x1b[?7l" // a line that is too long is cut
	enableWrap      = "\x1b[?7h"
	cursorHome      = "\x1b[H"
	clearRight      = "\x1b[K" // to the end of the line
	clearBelow      = "\x1b[J" // from here to the end of the screen
)

// canRepaint reports whether w is a terminal that can overwrite lines.
func canRepaint(w io.Writer) bool {
	return cli.IsTerminal(w) && os.Getenv("TERM") != "dumb"
}

// screen is a terminal in the alternate screen.
type screen struct {
	out io.Writer
}

// The size of a terminal that does not report one.
const (
	defaultColumns = 80
	defaultRows    = 24
)

// size returns the room for text. The last column is left empty: a cursor after it
// stays there, and clearRight would erase the last character.
func (s screen) size() (columns, rows int) {
	columns, rows = cli.TerminalSize(s.out)
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
		lines = append(lines[:rows-1], fmt.Sprintf("… %d more lines", len(lines)-rows+1))
	}
	// Between the lines only: behind the last row, a new line would scroll.
	return s.write(cursorHome + strings.Join(lines, clearRight+"\r\n") + clearRight + clearBelow)
}

func (s screen) write(sequence string) error {
	if _, err := io.WriteString(s.out, sequence); err != nil {
		return fmt.Errorf("cannot write to the terminal: %w", err)
	}
	return nil
}
