// SPDX-License-Identifier: Apache-2.0

package manual

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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
	header := &doc.GenManHeader{Section: root.Annotations[cli.ManSection], Source: root.Name(), Manual: "http01-proxyd"}
	return doc.GenManTree(root, header, dir)
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
