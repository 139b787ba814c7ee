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

// Main generates the documents that the command line requests: "man DIR" or "markdown DIR"
// for the commands, in an existing folder, and "file SOURCE.md PAGE" for the man page of a
// configuration file. SOURCE_DATE_EPOCH is the date of the man pages.
func Main(root *cobra.Command) {
	err := fmt.Errorf("usage: man DIR, markdown DIR, or file SOURCE.md PAGE, not %q", os.Args[1:])
	switch {
	case len(os.Args) == 3 && os.Args[1] == "man":
		err = WriteMan(root, os.Args[2])
	case len(os.Args) == 3 && os.Args[1] == "markdown":
		err = WriteMarkdown(root, os.Args[2])
	case len(os.Args) == 4 && os.Args[1] == "file":
		err = WriteFilePage(root, os.Args[2], os.Args[3])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(cli.Failure)
	}
}

// WriteMan writes a man page for each command.
func WriteMan(root *cobra.Command, dir string) error {
	root.DisableAutoGenTag = true
	root.Long += exitStatus()
	for _, s := range []struct{ annotation, title string }{
		{cli.ManEnvironment, "ENVIRONMENT"},
		{cli.ManFiles, "FILES"},
		{cli.ManSignals, "SIGNALS"},
	} {
		if lines := root.Annotations[s.annotation]; lines != "" {
			root.Long += "\n\n# " + s.title + "\n" + definitions(lines)
		}
	}
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
		fmt.Fprintf(&b, "**%s**\n: %s\n\n", term, description)
	}
	return b.String()
}

// WriteMarkdown writes the reference of a program: one document with all commands. It
// removes other documents of the program.
func WriteMarkdown(root *cobra.Command, dir string) error {
	name := strings.ReplaceAll(root.CommandPath(), " ", "_")
	old, err := filepath.Glob(filepath.Join(dir, name+"*.md"))
	if err != nil {
		return err
	}
	for _, file := range old {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	document := []byte(reference(root))
	return os.WriteFile(filepath.Join(dir, name+".md"), document, 0o644) //nolint:gosec // everybody may read it
}
