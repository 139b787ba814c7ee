// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/http01-proxyd/http01-proxyd/internal/spelling"
)

// reader walks the YAML tree and collects every problem, so that an administrator can
// fix all of them at once.
type reader struct {
	file     string
	lines    int // of the file, including a last line without a newline
	problems Problems
	values   map[string]*yaml.Node // of the keys in the file, by path, for the rules for several keys
}

// parseFunc parses the value of a key, whose path is where.
type parseFunc func(n *yaml.Node, where string)

type key struct {
	name  string
	parse parseFunc
}

func (r *reader) section(keys ...key) parseFunc {
	return func(n *yaml.Node, where string) { r.mapping(n, where, keys...) }
}

func (r *reader) problem(n *yaml.Node, fix, format string, args ...any) {
	r.problemAt(n.Line, n.Column, fix, format, args...)
}

func (r *reader) problemAt(line, column int, fix, format string, args ...any) {
	r.problems = append(r.problems, Problem{
		Where: r.file, Line: max(line, 1), Column: max(column, 1),
		Message: fmt.Sprintf(format, args...), Remediation: fix,
	})
}

// topLevel is the name of the outermost mapping in messages.
const topLevel = "the configuration"

// document returns the document of the file. It returns nil if the file contains no
// document (it is empty, or contains only comments) or is not valid YAML.
func (r *reader) document(data []byte) *yaml.Node {
	r.lines = bytes.Count(bytes.TrimSuffix(data, []byte("\n")), []byte("\n")) + 1
	if !utf8.Valid(data) {
		r.reportInvalidUTF8(data)
		return nil
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		r.reportSyntaxError(err, data)
		return nil
	}
	var doc, second yaml.Node
	if err := loader.Load(&doc); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		r.reportSyntaxError(err, data)
		return nil
	}
	if err := loader.Load(&second); err == nil {
		r.problem(&second, "keep one document and delete the rest", "a second YAML document")
	} else if !errors.Is(err, io.EOF) {
		r.reportSyntaxError(err, data)
	}
	if len(doc.Content) == 0 {
		return nil
	}
	return doc.Content[0]
}

// reportInvalidUTF8 reports the first line that is not UTF-8. The YAML library does not
// report its position.
func (r *reader) reportInvalidUTF8(data []byte) {
	for i, line := range bytes.Split(data, []byte("\n")) {
		if !utf8.Valid(line) {
			r.problemAt(i+1, 1, "write the file in UTF-8", "not UTF-8")
			return
		}
	}
}

// FindTab returns the position of a tab that indents the line of a syntax error, or one beside it. YAML
// accepts only spaces there, and the YAML library gives another reason. The position is 0 without one.
func FindTab(text []byte, near int) (line, column int) {
	for one := range bytes.Lines(text) {
		line++
		indent := one[:len(one)-len(bytes.TrimLeft(one, " \t"))]
		at := bytes.IndexByte(indent, '\t')
		if at >= 0 && near-1 <= line && line <= near+1 && len(bytes.TrimSpace(one)) > 0 {
			return line, at + 1
		}
	}
	return 0, 0
}

func (r *reader) reportSyntaxError(err error, data []byte) {
	fix := "correct the YAML syntax there"
	e, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		r.problemAt(1, 1, fix, "not valid YAML: %s", redact(err.Error()))
		return
	}
	if line, column := FindTab(data, e.Mark.Line); line > 0 {
		r.problemAt(line, column, "indent with spaces", "not valid YAML: a tab in the indentation")
		return
	}
	at, message := e.Mark, redactAnchor(e.Message)
	if strings.Contains(e.ContextMsg, "alias") || strings.Contains(message, "anchor") {
		fix = `put a text that begins with "*" in quotes`
	}
	if e.ContextMsg != "" {
		message = e.ContextMsg + ": " + message
		if e.Mark.Line > r.lines { // at the end of the file: report where the unfinished part begins
			at = e.ContextMark
		}
	}
	r.problemAt(at.Line, at.Column, fix, "not valid YAML: %s", message)
}

// mapping parses the keys of a mapping. A key without a value (because its children are
// commented out, for example) means an empty mapping. Anchors, aliases and merge keys
// are rejected, so that the file shows the configuration literally.
func (r *reader) mapping(n *yaml.Node, where string, keys ...key) {
	if isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.problem(n, "write keys and values, such as "+keys[0].name+": …",
			"%s is %s, not a mapping", where, describeNode(n))
		return
	}
	seen := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		if first, twice := seen[name.Value]; twice {
			r.problem(name, "keep one of the two", "key %s of %s is listed twice, first on line %d",
				quoteRedacted(name.Value), where, first)
			continue
		}
		seen[name.Value] = name.Line
		r.mappingEntry(name, value, where, keys)
	}
}

func (r *reader) mappingEntry(name, value *yaml.Node, where string, keys []key) {
	for _, n := range []*yaml.Node{name, value} {
		if n.Anchor != "" || n.Kind == yaml.AliasNode || n.Tag == "!!merge" {
			r.problem(n, "write the value out", "anchors, aliases and merge keys are not supported")
			return
		}
	}
	names := make([]string, len(keys))
	for i, k := range keys {
		if name.Kind == yaml.ScalarNode && k.name == name.Value {
			path := strings.TrimPrefix(where+"."+k.name, topLevel+".")
			r.values[path] = value
			k.parse(value, path)
			return
		}
		names[i] = k.name
	}
	fix := "use one of " + strings.Join(names, ", ")
	if like := spelling.Nearest(name.Value, names); like != "" {
		fix = "did you mean " + like + "? The keys are " + strings.Join(names, ", ")
	}
	r.problem(name, fix, "unknown key %s in %s", quoteRedacted(name.Value), where)
}

// list parses the entries of a sequence. A key without a value means an empty list.
func (r *reader) list(n *yaml.Node, where, example string, take func(*yaml.Node)) {
	if isNull(n) {
		return
	}
	if n.Kind != yaml.SequenceNode {
		r.problem(n, "write a list, such as "+example, "%s is %s, not a list", where, describeNode(n))
		return
	}
	for _, entry := range n.Content {
		if entry.Anchor != "" || entry.Kind == yaml.AliasNode {
			r.problem(entry, "write the value out", "anchors, aliases and merge keys are not supported")
			continue
		}
		take(entry)
	}
}

// scalar returns the text of a scalar of a YAML type.
func (r *reader) scalar(n *yaml.Node, where, fix, tag string) (string, bool) {
	if isNull(n) {
		r.problem(n, fix+", or delete the key", "%s has no value", where)
		return "", false
	}
	if n.Kind == yaml.ScalarNode && n.Tag == tag {
		return n.Value, true
	}
	r.problem(n, fix, "%s is %s", where, describeNode(n))
	return "", false
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func describeNode(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind != yaml.ScalarNode:
		return "an alias"
	}
	switch n.Tag {
	case "!!null":
		return "empty"
	case "!!str":
		return "the string " + quoteRedacted(n.Value)
	case "!!int", "!!float":
		return "the number " + redact(n.Value)
	case "!!bool":
		return "the boolean " + redact(n.Value)
	default:
		return redact(strings.TrimPrefix(n.Tag, "!!")) + " " + quoteRedacted(n.Value)
	}
}
