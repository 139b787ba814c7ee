// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
)

// The marks of RFC 7468, section 3.
const (
	beginMark = "-----BEGIN "
	endMark   = "-----END "
	markTail  = "-----"
)

// block is the text between two marks, including the marks.
type block struct {
	line int // of the first mark
	kind string
	text []byte
	flaw string // the reason why it cannot be used
}

// splitBlocks returns the blocks of a text. Text between blocks is ignored. A text that
// ends inside a block is rejected: the file may be incomplete.
func splitBlocks(text []byte) ([]block, error) {
	if err := checkLineBreaks(text); err != nil {
		return nil, err
	}
	var s blockSplitter
	for number := 1; len(text) > 0; number++ {
		line, rest, ended := bytes.Cut(text, []byte("\n"))
		full := text[:len(text)-len(rest)]
		// The mark begins a file that was appended.
		if bare := bytes.TrimLeft(line, byteOrderMark); s.open == nil || bytes.HasPrefix(bare, []byte(beginMark)) {
			line, full = bare, full[len(line)-len(bare):]
		}
		s.addLine(number, line, full, ended)
		text = rest
	}
	if s.open != nil || s.truncatedMark > 0 {
		line := s.truncatedMark
		if s.open != nil {
			line = s.open.line
		}
		return nil, &Rejection{
			Line: line, Message: "the file ends inside the certificate that begins here",
			Remediation: "write the file under a temporary name and rename it", Truncated: true,
		}
	}
	return s.blocks, nil
}

// brokenLine matches a BEGIN line that continues with base64, and an END line that continues
// with a BEGIN line. The submatch of either is what is there instead of a line break. No base64
// follows a comment that quotes a mark.
var brokenLine = regexp.MustCompile(`-----BEGIN [^-\r\n\\]*-----((?:\\+r)?\\+n|\r+|[ \t]*)[A-Za-z0-9+/]{16}` +
	`|-----END [^-\r\n\\]*-----((?:\\+r)?\\+n|\r+|[ \t]*)\x{FEFF}*[ \t]*-----BEGIN `)

// splitMarks gives each mark a line of its own. Spaces within base64 do not matter.
const splitMarks = `sed -E 's/[[:blank:]]*(-----(BEGIN|END) CERTIFICATE-----)[[:blank:]]*/\n\1\n/g'`

// checkLineBreaks rejects a text whose marks are not lines: programs that write a certificate
// into one line of another format replace its line breaks. The command of the remediation makes
// an accepted file.
func checkLineBreaks(text []byte) error {
	at := brokenLine.FindSubmatchIndex(text)
	if at == nil {
		return nil
	}
	lineBreak := text[max(at[2], at[4]):max(at[3], at[5])]
	var message string
	command := splitMarks
	switch {
	case bytes.HasPrefix(lineBreak, []byte(`\`)):
		message, command = `the line breaks are the two characters \n`, `sed -E 's/\\+r//g; s/\\+n/\n/g; s/"//g'`
	case bytes.HasPrefix(lineBreak, []byte("\r")):
		message, command = "the line ends are CR alone", `tr '\r' '\n'`
	case at[2] < 0:
		message = "an END line and the next BEGIN line are one line"
	case len(lineBreak) == 0:
		message = "the BEGIN line has no line break"
	default:
		message = "the line breaks are spaces"
	}
	return &Rejection{
		Line: 1 + bytes.Count(text[:at[0]], []byte("\n")), Message: message,
		Remediation: "convert it: " + command + " < FILE > ca-bundle.crt",
	}
}

type blockSplitter struct {
	blocks        []block
	open          *block
	truncatedMark int // the last line, if it is a truncated mark
}

// addLine processes one line; whole includes the line ending, if there is one.
func (s *blockSplitter) addLine(number int, line, full []byte, ended bool) {
	text := strings.TrimRight(string(line[:min(len(line), maxMark)]), " \t\r")
	mark := strings.TrimLeft(text, " \t")
	begins, ends := strings.HasPrefix(mark, beginMark), strings.HasPrefix(mark, endMark)
	switch {
	case s.open == nil && !ended && isTruncatedMark(mark):
		s.truncatedMark = number
	case begins:
		s.closeBlock("no END line before the next BEGIN line")
		s.beginBlock(number, text, mark, full)
	case s.open == nil && ends:
		s.blocks = append(s.blocks, block{line: number, flaw: "END line without a BEGIN line"})
	case s.open == nil:
	default:
		// All slices are of one text, so this extends the block by the line.
		s.open.text = s.open.text[:len(s.open.text)+len(full)]
		if !ends {
			return
		}
		whose := strings.TrimPrefix(mark, endMark)
		switch {
		case whose == s.open.kind+markTail:
			s.closeBlock("")
		case ended:
			s.closeBlock("the END line does not match the BEGIN line")
		}
	}
}

// maxMark is larger than any mark.
const maxMark = 256

// isTruncatedMark reports whether a line is the start of a mark without its end.
func isTruncatedMark(mark string) bool {
	if mark == "" {
		return false
	}
	return strings.HasPrefix(beginMark, mark) ||
		(strings.HasPrefix(mark, beginMark) && !strings.HasSuffix(mark[len(beginMark):], markTail))
}

func (s *blockSplitter) beginBlock(number int, text, mark string, full []byte) {
	kind, ok := strings.CutSuffix(mark[len(beginMark):], markTail)
	s.open = &block{line: number, kind: kind, text: full}
	switch {
	case !ok:
		s.closeBlock("the BEGIN line does not end with " + markTail)
	case text != mark:
		s.open.flaw = "indented: lines must begin in the first column"
	}
}

// closeBlock ends the block. The flaw applies unless the block already got one.
func (s *blockSplitter) closeBlock(flaw string) {
	if s.open == nil {
		return
	}
	if s.open.flaw == "" {
		s.open.flaw = flaw
	}
	s.blocks = append(s.blocks, *s.open)
	s.open = nil
}

// wrongKind returns the flaw of a block that is not a certificate.
func (b block) wrongKind() string {
	return fmt.Sprintf("a block %q, not a CERTIFICATE", printable.Truncate(b.kind, maxKind))
}

const maxKind = 40
