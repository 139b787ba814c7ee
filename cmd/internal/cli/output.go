// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"
	"golang.org/x/term"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Output formats.
const (
	Text = "text"
	Wide = "wide"
	JSON = "json"
	YAML = "yaml"
	HTML = "html" // one page for a browser
)

// choice is a flag value that is one of a list.
type choice struct {
	value  *string
	kind   string // its name in the help
	values []string
}

func (c *choice) String() string {
	if c.value == nil { // pflag's zero value
		return ""
	}
	return *c.value
}

func (c *choice) Type() string { return c.kind }

func (c *choice) Set(value string) error {
	if !slices.Contains(c.values, value) {
		return fmt.Errorf("use %s", oneOf(c.values))
	}
	*c.value = value
	return nil
}

// oneOf returns "this, that or another".
func oneOf(values []string) string {
	last := len(values) - 1
	return strings.Join(values[:last], ", ") + " or " + values[last]
}

// choiceFlag adds a flag with a fixed list of values, of which the first is the
// default.
func choiceFlag(c *cobra.Command, value *string, name, shorthand, kind, usage string, values ...string) {
	*value = values[0]
	v := &choice{value, kind, values}
	c.Flags().VarP(v, name, shorthand, usage+": "+oneOf(values))
	complete := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	_ = c.RegisterFlagCompletionFunc(name, complete) // fails for unknown flags only
}

// OutputFlag adds -o with these formats, of which the first is the default.
func OutputFlag(c *cobra.Command, format *string, formats ...string) {
	choiceFlag(c, format, "output", "o", "FORMAT", "format of the output", formats...)
}

// Output holds the flags of a command that prints a document as text or as data.
type Output struct {
	Format string
	color  string
	width  int
}

// Add adds the flags to a command. The first of the formats is the default.
func (o *Output) Add(c *cobra.Command, formats ...string) {
	OutputFlag(c, &o.Format, formats...)
	choiceFlag(c, &o.color, "color", "", "WHEN",
		"colours in the text; auto: on a terminal, unless NO_COLOR is set", "auto", "always", "never")
	c.Flags().IntVar(&o.width, "width", 0,
		"wrap text at this number of `COLUMNS` (default: the width of the terminal; no limit in a file or a pipe)")
}

// Write writes a document in the format, or its text.
func (o *Output) Write(w io.Writer, document any, text terminal.Text) error {
	if o.Format == JSON || o.Format == YAML {
		return WriteDocument(w, o.Format, document)
	}
	return text.Write(w, o.View(w))
}

// View returns how text is written to w. The format wide is not limited to the width of
// the terminal.
func (o *Output) View(w io.Writer) terminal.View {
	v := terminal.View{Colour: useColor(o.color, w), Width: o.width, Wide: o.Format == Wide}
	if v.Width == 0 && !v.Wide {
		v.Width, _ = TerminalSize(w)
	}
	return v
}

// useColor reports whether text on w is coloured, according to --color. By default, color is
// used if w is a terminal that is not dumb, and NO_COLOR is not set (no-color.org).
func useColor(when string, w io.Writer) bool {
	switch when {
	case "always":
		return true
	case "never":
		return false
	default:
		return IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, is := w.(*os.File)
	return is && term.IsTerminal(int(f.Fd()))
}

// TerminalSize returns the columns and rows of a terminal. Both are 0 if the size is
// unknown or w is not a terminal.
func TerminalSize(w io.Writer) (columns, rows int) {
	f, is := w.(*os.File)
	if !is {
		return 0, 0
	}
	columns, rows, err := term.GetSize(int(f.Fd()))
	if err != nil || columns == 0 || rows == 0 {
		return 0, 0
	}
	return columns, rows
}

// maxBlockStyle is the size of a JSON text, in bytes, up to which YAML is in block style.
const maxBlockStyle = 256 << 10

// WriteDocument writes a document as indented JSON or as YAML, with the same names in the same
// order. JSON is also valid YAML, and a large document is written as JSON.
func WriteDocument(w io.Writer, format string, document any) error {
	if format != YAML {
		return report.WriteJSON(w, document, true)
	}
	text, err := json.Marshal(document)
	if err != nil {
		return fmt.Errorf("cannot write the document as YAML: %w", err)
	}
	if len(text) > maxBlockStyle { // which takes 100 times the memory
		return report.WriteJSON(w, document, true)
	}
	// JSON is YAML in flow style, but for the escapes of characters above U+FFFF.
	var root yaml.Node
	flow := report.EscapeUnprintable(string(text), func(r rune) string {
		if r > 0xffff {
			return string(r)
		}
		return fmt.Sprintf(`\u%04x`, r)
	})
	if err := yaml.Load([]byte(flow), &root); err != nil {
		return fmt.Errorf("cannot write the document as YAML: %w", err)
	}
	useBlockStyle(&root)
	out, err := yaml.Dump(&root, yaml.WithIndent(2), yaml.WithLineWidth(-1))
	if err != nil {
		return fmt.Errorf("cannot write the document as YAML: %w", err)
	}
	_, err = io.WriteString(w,
		report.EscapeUnprintable(string(out), func(r rune) string { return fmt.Sprintf(`\U%08x`, r) }))
	return err
}

// useBlockStyle changes nodes from flow style to block style. A text that is not
// printable stays in double quotes, in which it can be escaped.
func useBlockStyle(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode || !strings.ContainsFunc(n.Value, func(r rune) bool { return !isPrintable(r) }) {
		n.Style = 0
	}
	for _, child := range n.Content {
		useBlockStyle(child)
	}
}

func isPrintable(r rune) bool { return r == '\n' || unicode.IsPrint(r) }
