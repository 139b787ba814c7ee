// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
)

// Control sequences (xterm's ctlseqs) that all terminals in use support.
const (
	DisableWrap = "\x1b[?7l" // a line that is too long is cut
	EnableWrap  = "\x1b[?7h"
	CursorHome  = "\x1b[H"
	ClearRight  = "\x1b[K" // to the end of the line
	ClearBelow  = "\x1b[J" // from here to the end of the screen
)

// screen is a terminal whose contents are replaced. Between two of them it is in its normal
// state, so that nothing needs to be restored, however the program ends or stops.
type screen struct {
	out io.Writer
}

// The size of a terminal that does not report one.
const (
	defaultColumns = 80
	defaultRows    = 24
)

// size returns the room for text. The last column is left empty: a cursor after it
// stays there, and ClearRight would erase the last character.
func (s screen) size() (columns, rows int) {
	columns, rows = TerminalSize(s.out)
	return max(1, cmp.Or(columns, defaultColumns)-1), cmp.Or(rows, defaultRows)
}

// scroll moves the earlier contents out of the screen, where they stay readable.
func (s screen) scroll() error {
	_, rows := s.size()
	return s.write(strings.Repeat("\n", rows))
}

// draw replaces the contents. It writes once, and erases nothing before the new text is there,
// so that nothing flickers. It leaves out lines that do not fit.
func (s screen) draw(text string) error {
	_, rows := s.size()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) > rows {
		lines = append(lines[:rows-1], fmt.Sprintf("… %d more lines", len(lines)-rows+1))
	}
	// Between the lines only: behind the last row, a new line would scroll.
	drawn := strings.Join(lines, ClearRight+"\r\n") + ClearRight + ClearBelow
	return s.write(DisableWrap + CursorHome + drawn + EnableWrap)
}

func (s screen) write(sequence string) error {
	if _, err := io.WriteString(s.out, sequence); err != nil {
		return fmt.Errorf("cannot write to the terminal: %w", err)
	}
	return nil
}
