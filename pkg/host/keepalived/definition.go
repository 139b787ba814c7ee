// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"errors"
	"strings"
)

// definition is the value of one $NAME. A multi-line definition has several lines, or none
// while it is still being read.
type definition struct {
	lines     []string
	multiline bool
}

func (d definition) firstLine() string {
	if len(d.lines) == 0 {
		return ""
	}
	return d.lines[0]
}

func singleLine(value string) definition { return definition{lines: []string{value}} }

// parseDefinition parses $NAME=VALUE. No blank is allowed before the equals sign
// (check_definition of lib/parser.c). A value that ends in a backslash continues on the
// following lines.
func parseDefinition(s string) (name string, def definition, ok bool) {
	if s == "" || s[0] != '$' {
		return "", definition{}, false
	}
	name = leadingIdentifier(s[1:])
	if name == "" || !strings.HasPrefix(s[1+len(name):], "=") {
		return "", definition{}, false
	}
	value := strings.TrimLeft(s[len(name)+2:], blanks)
	head, more := strings.CutSuffix(value, `\`)
	if !more {
		return name, singleLine(value), true
	}
	def.multiline = true
	if head = strings.TrimRight(head, blanks); head != "" {
		def.lines = []string{head}
	}
	return name, def, true
}

func leadingIdentifier(s string) string {
	for i := range len(s) {
		c := s[i] | 0x20
		letter := c >= 'a' && c <= 'z' || s[i] == '_'
		digit := s[i] >= '0' && s[i] <= '9'
		if !letter && (!digit || i == 0) {
			return s[:i]
		}
	}
	return s
}

var (
	errExpandedLineTooLong = errors.New("the expanded line is longer than keepalived accepts: shorten the definition")
	errExpansionLimit      = errors.New("the definitions expand without end or to too much text: write the lines without definitions")
)

type expander struct {
	defs          map[string]definition
	bytes         int // text produced by definitions
	substitutions int
}

func newExpander(configID, dir string) *expander {
	return &expander{defs: map[string]definition{
		// Definitions that keepalived sets itself (set_std_definitions). _RANDOM and _ENV are
		// missing: only the keepalived process has their values.
		"_INSTANCE": singleLine(configID),
		"_PWD":      singleLine(dir),
		"_HASH":     singleLine("#"),
		"_BANG":     singleLine("!"),
	}}
}

func (e *expander) addExpandedLine(n int) error {
	e.bytes += n + lineCost
	if e.bytes > maxExpandedBytes {
		return errExpansionLimit
	}
	return nil
}

// expand replaces $NAME and ${NAME} until no defined name is left. Values may contain further
// names. rest holds the lines of multi-line definitions after their first lines. The last
// entry of rest comes first in the resulting file.
func (e *expander) expand(s string) (out string, rest [][]string, changed bool, err error) {
	for at := 0; ; {
		i := strings.IndexByte(s[at:], '$')
		if i < 0 || at+i+1 == len(s) {
			break
		}
		at += i
		def, n, ok := e.lookup(s[at:])
		if !ok {
			at++
			continue
		}
		changed = true
		if e.substitutions++; e.substitutions > maxSubstitutions {
			return "", nil, true, errExpansionLimit
		}
		value := def.firstLine()
		if len(s)-n+len(value) > maxLine {
			return "", nil, true, errExpandedLineTooLong
		}
		s = s[:at] + value + s[at+n:]
		if len(def.lines) > 1 {
			rest = append(rest, def.lines[1:])
		}
		if strings.HasPrefix(strings.TrimLeft(value, blanks), "~") {
			break // the repeated text is expanded when it is repeated
		}
	}
	if changed {
		err = e.addExpandedLine(len(s))
	}
	return s, rest, changed, err
}

// lookup returns the definition named at the start of s, which starts with the dollar sign. n
// is the length of the reference. A name without braces must be followed by a blank, a comma,
// a closing parenthesis or the end of the line. A multi-line definition must be the last text
// on its line (find_definition of lib/parser.c).
func (e *expander) lookup(s string) (def definition, n int, ok bool) {
	if strings.HasPrefix(s, "${") {
		name := leadingIdentifier(s[2:])
		n = 2 + len(name)
		if name == "_RANDOM" || name == "_ENV" {
			return stripRuntimeReference(s, name)
		}
		if name == "" || !strings.HasPrefix(s[n:], "}") {
			return definition{}, 0, false
		}
		n++
		def, ok = e.defs[name]
	} else {
		name := leadingIdentifier(s[1:])
		n = 1 + len(name)
		if name == "" || n < len(s) && strings.IndexByte(" \t,)", s[n]) < 0 {
			return definition{}, 0, false
		}
		def, ok = e.defs[name]
	}
	if !ok || def.multiline && n != len(s) {
		return definition{}, 0, false
	}
	return def, n, true
}

// stripRuntimeReference removes the braces of ${_RANDOM MIN MAX} and ${_ENV NAME}, so that
// they do not count as the braces of a block. The name remains, and parseVIP rejects it.
func stripRuntimeReference(s, name string) (def definition, n int, ok bool) {
	end := strings.IndexByte(s, '}')
	if end < 0 {
		return definition{}, 0, false
	}
	return singleLine("$" + name), end + 1, true
}
