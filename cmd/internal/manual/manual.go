// SPDX-License-Identifier: Apache-2.0

package manual

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
)

// Main generates the documents that the command line requests, in an existing folder:
// "man DIR" or "markdown DIR". SOURCE_DATE_EPOCH is the date of the man pages.
func Main(root *cobra.Command) {
	err := fmt.Errorf("usage: man DIR, or markdown DIR, not %q", os.Args[1:])
	if len(os.Args) == 3 {
		switch os.Args[1] {
		case "man":
			err = WriteMan(root, os.Args[2])
		case "markdown":
			err = WriteMarkdown(root, os.Args[2])
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(cli.Failure)
	}
}

// WriteMan writes a man page for each command.
func WriteMan(root *cobra.Command, dir string) error {
	root.DisableAutoGenTag = true
	extra := exitStatus()
	if files := root.Annotations[cli.ManFiles]; files != "" {
		extra = "\n\n# FILES\n" + definitions(files) + extra
	}
	root.Long += extra
	for _, c := range root.Commands() {
		c.Long += exitStatus()
	}
	section := root.Annotations[cli.ManSection]
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: section, Source: root.Name(), Manual: "http01-proxyd"}, dir); err != nil {
		return err
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*."+section))
	if err != nil {
		return err
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		// cobra writes the default of a flag without a value as if the flag took one.
		text = bytes.ReplaceAll(text, []byte("[=false]"), nil)
		text = withCommands(root, filepath.Base(page), section, text)
		if err := os.WriteFile(page, text, 0o644); err != nil { //nolint:gosec // to be read by anyone
			return err
		}
	}
	return nil
}

// withCommands lists the commands in the synopsis of a page, if its command has some.
// cobra writes only the flags.
func withCommands(c *cobra.Command, page, section string, text []byte) []byte {
	var lines []string
	for _, sub := range c.Commands() {
		text = withCommands(sub, page, section, text)
		if sub.IsAvailableCommand() {
			lines = append(lines, "\\fB"+sub.CommandPath()+"\\fP"+strings.TrimPrefix(sub.UseLine(), sub.CommandPath()))
		}
	}
	if len(lines) == 0 || page != strings.ReplaceAll(c.CommandPath(), " ", "-")+"."+section {
		return text
	}
	before, after, found := bytes.Cut(text, []byte(".SH SYNOPSIS\n"))
	own, after, ended := bytes.Cut(after, []byte("\n\n"))
	if !found || !ended {
		return text
	}
	lines = append([]string{string(own)}, lines...)
	return slices.Concat(before, []byte(".SH SYNOPSIS\n"+strings.Join(lines, "\n.br\n")+"\n\n"), after)
}

// exitStatus is the table of the exit codes as a section.
func exitStatus() string {
	_, table, _ := strings.Cut(cli.ExitCodes, "\n")
	return "\n\n# EXIT STATUS\n" + definitions(regexp.MustCompile(`(?m)^ +(\d) +`).ReplaceAllString(table, "$1: "))
}

// definitions converts "term: description" lines.
func definitions(lines string) string {
	var b strings.Builder
	for line := range strings.Lines(lines) {
		term, description, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		fmt.Fprintf(&b, "**%s**\n\t%s\n\n", term, description)
	}
	return b.String()
}

// WriteMarkdown writes a document for each command, and removes those of other commands
// of the program.
func WriteMarkdown(root *cobra.Command, dir string) error {
	root.DisableAutoGenTag = true
	old, err := filepath.Glob(filepath.Join(dir, strings.ReplaceAll(root.CommandPath(), " ", "_")+"*.md"))
	if err != nil {
		return err
	}
	for _, file := range old {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	return doc.GenMarkdownTree(root, dir)
}
