// SPDX-License-Identifier: Apache-2.0

package manual

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
)

// WriteFilePage writes the man page of the program's configuration file, whose first entry
// in FILES it is. The source is the document for administrators, so that both are equal.
func WriteFilePage(root *cobra.Command, source, page string) error {
	text, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	name, section := strings.TrimSuffix(filepath.Base(page), filepath.Ext(page)), filepath.Ext(page)[1:]
	path, _, _ := strings.Cut(root.Annotations[cli.ManFiles], ": ")
	head := fmt.Sprintf("%% %q %q %q %q \"http01-proxyd\"\n# NAME\n%s \\- configuration of %s\n\n# SYNOPSIS\n%s\n\n# DESCRIPTION\n",
		strings.ToUpper(name), section, date().Format("Jan 2006"), root.Name(), name, root.Name(), path)
	also := fmt.Sprintf("\n# SEE ALSO\n**%s(%s)**\n", root.Name(), root.Annotations[cli.ManSection])
	return os.WriteFile(page, md2man.Render([]byte(head+forMan(string(text))+also)), 0o644) //nolint:gosec // everybody may read it
}

// date is SOURCE_DATE_EPOCH, or the current time without it.
func date() time.Time {
	if epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		return time.Unix(epoch, 0).UTC()
	}
	return time.Now()
}

var (
	relativeLink = regexp.MustCompile(`\[([^\]]+)\]\([^):]+\)`)
	keyItem      = regexp.MustCompile("^- (`.*?`(?: \\(default `.*?`\\))?): (.*)")
)

// forMan converts a document: it leaves out the title, and its sections become sections of the man page,
// links to other documents become text, and the items of keys become definitions.
func forMan(document string) string {
	var b strings.Builder
	fenced := false
	for line := range strings.Lines(document) {
		text := strings.TrimSpace(line)
		fenced = fenced != strings.HasPrefix(text, "```")
		if fenced {
			b.WriteString(line)
			continue
		}
		line = relativeLink.ReplaceAllString(line, "$1")
		switch {
		case strings.HasPrefix(line, "# "):
		case strings.HasPrefix(line, "## "):
			b.WriteString(strings.ToUpper(line[1:]))
		case strings.HasPrefix(line, "### "):
			b.WriteString(line[1:])
		default:
			b.WriteString(keyItem.ReplaceAllString(line, "$1\n: $2\n"))
		}
	}
	return b.String()
}
