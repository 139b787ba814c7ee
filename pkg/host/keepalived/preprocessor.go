// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"bytes"
	"strings"
)

type source struct {
	path string
	dir  string // base directory of relative includes
	data []byte
}

// includer returns the files that an include line of a file in dir names, in the order in
// which they are read. Absent files are not an error.
type includer func(dir, pattern string) ([]source, error)

// line is one logical line: a single brace, or text without braces.
type line struct {
	text     string
	pos      Pos
	expanded bool // offsets in text no longer match columns of the file
}

func (l line) position(i int) Pos {
	p := l.pos
	if !l.expanded {
		p.Column += i
	}
	return p
}

func (l line) tail(i int) line {
	return line{text: l.text[i:], pos: l.position(i), expanded: l.expanded}
}

// openFile is a file that is being read. next lists the remaining files of the same include.
type openFile struct {
	source
	lineNo int
	next   []source
}

// preprocessor turns files into logical lines, as keepalived does. It reads its sources in
// the order of read_line in lib/parser.c: the rest of the last line, then the rest of
// multi-line definitions, then the files.
type preprocessor struct {
	include  includer
	configID string
	expander *expander

	files       []*openFile
	pending     []line      // at most one: the rest of a line that was split at a brace
	expansions  []expansion // innermost last
	defining    string      // name of the multi-line definition that is being read
	filesOpened int         // files opened so far

	end            Pos  // end of the last line that was read
	blank          bool // all files so far contain only white space
	missingNewline bool // a file ends in text without a newline
}

// expansion is the rest of a multi-line definition and the position of its use.
type expansion struct {
	lines []string
	pos   Pos
}

func newPreprocessor(root source, configID string, include includer) *preprocessor {
	l := &preprocessor{
		include:  include,
		configID: configID,
		expander: newExpander(configID, root.dir),
		blank:    true,
		end:      Pos{File: root.path, Line: 1, Column: 1},
	}
	l.open([]source{root})
	return l
}

func (l *preprocessor) open(sources []source) {
	if len(sources) == 0 {
		return
	}
	l.files = append(l.files, &openFile{source: sources[0], next: sources[1:]})
}

// next returns the next logical line that is not empty. ok is false at the end of all files.
func (l *preprocessor) next() (out line, ok bool, err error) {
	for {
		raw, ok, err := l.nextRaw()
		if err != nil || !ok {
			return line{}, false, err
		}
		if l.defining != "" {
			l.continueDefinition(raw.text)
			continue
		}
		if raw, err = l.expandLine(raw); err != nil {
			return line{}, false, err
		}
		if raw.text == "" || raw.text == `\` { // a single backslash remains of a comment that ends in one
			continue
		}
		if pattern, ok := includePattern(raw.text); ok {
			if err := l.openIncludes(raw, pattern); err != nil {
				return line{}, false, err
			}
			continue
		}
		head, rest, at := splitAtBrace(raw.text)
		if strings.HasSuffix(head, "$") && strings.HasPrefix(rest, "{") {
			// keepalived would treat the braces as those of a block.
			return line{}, false, syntaxErrorf(raw.position(at-1), "$%s cannot be expanded here: define it above; a multi-line definition must end the line", throughClosingBrace(rest))
		}
		if rest != "" {
			l.pending = append(l.pending, raw.tail(at))
			l.pending[0].text = rest
		}
		raw.text = head
		return raw, true, nil
	}
}

func throughClosingBrace(s string) string {
	name, _, _ := strings.Cut(s, "}")
	return name + "}"
}

func (l *preprocessor) nextRaw() (line, bool, error) {
	if n := len(l.pending); n > 0 {
		out := l.pending[n-1]
		l.pending = l.pending[:n-1]
		return out, true, nil
	}
	for n := len(l.expansions); n > 0; n = len(l.expansions) {
		top := &l.expansions[n-1]
		if len(top.lines) == 0 {
			l.expansions = l.expansions[:n-1]
			continue
		}
		out := line{text: top.lines[0], pos: top.pos, expanded: true}
		top.lines = top.lines[1:]
		if err := l.expander.addExpandedLine(len(out.text)); err != nil {
			return line{}, false, &ParseError{Pos: top.pos, Text: "use of a definition", Err: err}
		}
		return out, true, nil
	}
	return l.nextFileLine()
}

// nextFileLine returns the next line of the files that is not only a comment.
func (l *preprocessor) nextFileLine() (line, bool, error) {
	for len(l.files) > 0 {
		f := l.files[len(l.files)-1]
		if len(f.data) == 0 {
			l.closeFile()
			continue
		}
		text, tail, complete := bytes.Cut(f.data, []byte("\n"))
		f.data = tail
		f.lineNo++
		out, err := l.decodeLine(f, strings.TrimRight(string(text), "\r"), complete)
		if err != nil {
			return line{}, false, err
		}
		if out.text != "" {
			return out, true, nil
		}
	}
	return line{}, false, nil
}

func (l *preprocessor) closeFile() {
	n := len(l.files) - 1
	next := l.files[n].next
	l.files = l.files[:n]
	l.open(next)
}

func (l *preprocessor) decodeLine(f *openFile, s string, complete bool) (line, error) {
	indent := len(s) - len(strings.TrimLeft(s, blanks))
	out := line{pos: Pos{File: f.path, Line: f.lineNo, Column: indent + 1}}
	l.end = Pos{File: f.path, Line: f.lineNo, Column: len(s) + 1}
	if i := strings.IndexByte(s, 0); i >= 0 {
		out.pos.Column = i + 1
		return out, incompletef(out.pos, "NUL byte found")
	}
	if s == "" {
		// An empty line ends a definition. A comment does not.
		l.defining = ""
		return out, nil
	}
	var unterminated bool
	out.text, unterminated = decomment(s)
	// keepalived's parent process writes a copy of the configuration without comments. Its
	// VRRP process reads that copy and removes comments again, so \# starts a comment after
	// all (init_data and read_line of lib/parser.c).
	out.text, _ = decomment(out.text)
	l.blank = l.blank && strings.TrimLeft(s, blanks) == ""
	switch {
	case unterminated && !complete:
		return out, incompletef(l.end, "the file ends inside a quoted string")
	case unterminated:
		return out, syntaxErrorf(out.pos, "unclosed double quote: close it on this line")
	case len(out.text) > maxLine:
		return out, syntaxErrorf(out.pos, "the line is longer than the %d bytes that keepalived accepts: split it", maxLine)
	}
	if !complete && out.text != "" && out.text != "}" {
		l.missingNewline = true
	}
	return out, nil
}

// continueDefinition adds a line to the definition that is being read. A line without a
// backslash at its end is the last one.
func (l *preprocessor) continueDefinition(s string) {
	text, more := strings.CutSuffix(s, `\`)
	if more {
		text = strings.TrimRight(text, blanks)
	}
	def := l.expander.defs[l.defining]
	if text != "" {
		def.lines = append(def.lines, text)
		l.expander.defs[l.defining] = def
	}
	if !more {
		l.defining = ""
	}
}

// expandLine applies conditions and definitions to a line. A line that only sets a
// definition, or whose condition is false, becomes empty.
func (l *preprocessor) expandLine(in line) (line, error) {
	for {
		in = l.resolveConditional(in)
		if name, def, ok := parseDefinition(in.text); ok {
			l.expander.defs[name] = def
			if def.multiline {
				l.defining = name
			}
			in.text = ""
			return in, nil
		}
		if s := in.text; strings.HasPrefix(s, "~SEQ") || strings.HasPrefix(s, "~LST") {
			return in, syntaxErrorf(in.pos, "%s is not supported: write the resulting lines instead", s[:4])
		}
		if !strings.Contains(in.text, "$") || strings.HasPrefix(in.text, "~") {
			return in, nil
		}
		text, rest, changed, err := l.expander.expand(in.text)
		if err != nil {
			return in, &ParseError{Pos: in.pos, Text: "use of a definition", Err: err}
		}
		if !changed {
			return in, nil
		}
		for _, lines := range rest {
			l.expansions = append(l.expansions, expansion{lines: lines, pos: in.pos})
		}
		in.expanded = true
		in.text, _ = decomment(text)
		if !strings.HasPrefix(in.text, "@") && !strings.Contains(in.text, "$") {
			return in, nil
		}
	}
}

// resolveConditional evaluates @id and @^id at the start of a line.
func (l *preprocessor) resolveConditional(in line) line {
	if !strings.HasPrefix(in.text, "@") {
		return in
	}
	id, negated := strings.CutPrefix(in.text[1:], "^")
	end := strings.IndexAny(id, blanks)
	if end < 0 || (id[:end] == l.configID) == negated {
		in.text = ""
		return in
	}
	tail := strings.TrimLeft(id[end:], blanks)
	return in.tail(len(in.text) - len(tail))
}

// includePattern recognises include and its strict variants (is_include of lib/parser.c).
// They differ only in what keepalived logs about absent files. The rest of the line,
// including quotes, is the pattern.
func includePattern(s string) (string, bool) {
	rest, ok := strings.CutPrefix(s, "include")
	if !ok || rest == "" {
		return "", false
	}
	if strings.IndexByte("rmwba", rest[0]) >= 0 {
		rest = rest[1:]
	}
	if rest == "" || strings.IndexByte(whitespace, rest[0]) < 0 {
		return "", false
	}
	return strings.TrimLeft(rest[1:], blanks), true
}

// openIncludes opens the files of an include line. The file with the include line is still
// open, even at its end: files are closed when a further line is requested.
func (l *preprocessor) openIncludes(at line, pattern string) error {
	f := l.files
	if len(f) > maxIncludeDepth {
		return syntaxErrorf(at.pos, "include %s: nested more than %d deep: does a file include itself?", pattern, maxIncludeDepth)
	}
	sources, err := l.include(f[len(f)-1].dir, pattern)
	if err != nil {
		return &ParseError{Pos: at.pos, Text: "include " + pattern, Err: err}
	}
	if l.filesOpened += len(sources); l.filesOpened > maxFiles {
		return syntaxErrorf(at.pos, "include %s: more than %d files", pattern, maxFiles)
	}
	for _, s := range sources {
		for _, o := range f {
			if o.path == s.path {
				return syntaxErrorf(at.pos, "include %s: %s includes itself", pattern, s.path)
			}
		}
	}
	l.open(sources)
	return nil
}
