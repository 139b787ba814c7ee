// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"bytes"
	"fmt"
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
		if bytes.HasPrefix(line, []byte(byteOrderMark)) { // of a file that was appended
			line, full = line[len(byteOrderMark):], full[len(byteOrderMark):]
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
			Line: line, Message: "the file ends inside the certificate that begins here", Remediation: "write the file under a temporary name and rename it", Truncated: true,
		}
	}
	return s.blocks, nil
}

// checkLineBreaks rejects a text whose marks are not lines: programs that write a certificate
// into one line of another format replace its line breaks.
func checkLineBreaks(text []byte) error {
	for at, rest := 0, text; ; {
		i := bytes.Index(rest, []byte(beginMark))
		if i < 0 {
			return nil
		}
		before := rest[:i]
		at += i + len(beginMark)
		rest = text[at:]
		_, after, is := bytes.Cut(rest[:min(len(rest), maxMark)], []byte(markTail))
		message, remediation := "", ""
		switch {
		case bytes.HasSuffix(before, []byte(markTail)):
			message, remediation = "an END line and the next BEGIN line are one line", `begin each certificate in a line of its own: sed -i 's/-----END CERTIFICATE-----/&\n/' FILE`
		case !is:
		case bytes.HasPrefix(after, []byte(`\n`)), bytes.HasPrefix(after, []byte(`\r\n`)):
			message, remediation = `the line breaks are the two characters \n`, `replace them by line breaks: printf '%b' "$(cat FILE)" > NEW`
		case bytes.HasPrefix(after, []byte("\r")) && !bytes.HasPrefix(after, []byte("\r\n")):
			message, remediation = "the line ends are CR alone", `replace them by line breaks: tr '\r' '\n' < FILE > NEW`
		case isSpaced(after):
			message, remediation = "the line breaks are spaces", `replace them by line breaks: sed -E 's/ ?(-----(BEGIN|END) CERTIFICATE-----) ?/\n\1\n/g' FILE | sed '/-----/!s/ /\n/g' > NEW`
		}
		if message != "" {
			return &Rejection{Line: 1 + bytes.Count(text[:at], []byte("\n")), Message: message, Remediation: remediation}
		}
	}
}

// isSpaced reports whether spaces and further text follow in the same line.
func isSpaced(after []byte) bool {
	trimmed := bytes.TrimLeft(after, " ")
	return len(trimmed) < len(after) && len(trimmed) > 0 && !strings.ContainsRune("\t\r\n", rune(trimmed[0]))
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
	return strings.HasPrefix(beginMark, mark) || (strings.HasPrefix(mark, beginMark) && !strings.HasSuffix(mark[len(beginMark):], markTail))
}

func (s *blockSplitter) beginBlock(number int, text, mark string, full []byte) {
	kind, is := strings.CutSuffix(mark[len(beginMark):], markTail)
	s.open = &block{line: number, kind: kind, text: full}
	switch {
	case !is:
		s.closeBlock("the BEGIN line does not end with " + markTail)
	case text != mark:
		s.open.flaw = "indented: lines must begin in the first column"
	}
}

// closeBlock ends the block. The flaw applies unless the block already has one.
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
