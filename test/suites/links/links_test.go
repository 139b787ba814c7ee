// SPDX-License-Identifier: Apache-2.0

package links

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

const (
	repository = "../../.."
	prefix     = "https://github.com/http01-proxyd/http01-proxyd/blob/main/" // as in internal/docurl
)

// TestLinks: each link of a document leads to a tracked file and to one of its headings.
func TestLinks(t *testing.T) {
	files := tracked(t)
	tree := newTree(os.DirFS(repository), files)
	checked := 0
	for _, file := range files {
		if path.Ext(file) != ".md" || strings.Contains(file, "/testdata/") {
			continue
		}
		problems, links := tree.check(file)
		for _, problem := range problems {
			t.Error(problem)
		}
		checked += links
	}
	if checked < 100 {
		t.Errorf("%d links found, want at least 100", checked)
	}
}

// TestURLs: each URL of a document, in any file and in the program, leads to a document and
// to one of its headings.
func TestURLs(t *testing.T) {
	files := tracked(t)
	tree := newTree(os.DirFS(repository), files)
	address := regexp.MustCompile(regexp.QuoteMeta(prefix) + `([A-Za-z0-9_./#-]*[A-Za-z0-9])`)
	found := 0
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(repository, file))
		if err != nil {
			t.Fatal(err)
		}
		if file == "internal/docurl/docurl.go" {
			content = bytes.ReplaceAll(content, []byte(`prefix + "`), []byte(prefix))
		}
		for _, m := range address.FindAllStringSubmatch(string(content), -1) {
			found++
			if !tree.exists(m[1]) {
				t.Errorf("%s: %s does not exist", file, m[0])
			}
		}
	}
	if found < 10 {
		t.Errorf("%d URLs found: did the prefix change?", found)
	}
}

// TestNoPathsAreShipped: units, the journal catalog and alerts name URLs, since their
// readers may have no checkout.
func TestNoPathsAreShipped(t *testing.T) {
	document := regexp.MustCompile(`(?:^|[\s(])(?:docs/[a-z/-]+\.md|README\.md)`)
	checked := 0
	for _, file := range tracked(t) {
		if top, _, _ := strings.Cut(file, "/"); top != "systemd" && top != "machineconfigs" || path.Ext(file) == ".md" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(repository, file))
		if err != nil {
			t.Fatal(err)
		}
		checked++
		for number, line := range strings.Split(string(content), "\n") {
			if !strings.HasPrefix(strings.TrimSpace(line), "#") && document.MatchString(line) {
				t.Errorf("%s:%d: a path instead of a URL: %s", file, number+1, line)
			}
		}
	}
	if checked < 10 {
		t.Errorf("%d files found, want at least 10", checked)
	}
}

// A tree has the files and folders that links may lead to.
type tree struct {
	root    fs.FS
	paths   map[string]bool
	anchors map[string][]string // by document
}

func newTree(root fs.FS, files []string) *tree {
	t := &tree{root: root, paths: map[string]bool{".": true}, anchors: make(map[string][]string)}
	for _, file := range files {
		for at := file; at != "."; at = path.Dir(at) {
			t.paths[at] = true
		}
	}
	return t
}

// check returns the broken links of a document, and how many links it has. Links to other
// hosts are not followed.
func (t *tree) check(file string) (problems []string, links int) {
	content, err := fs.ReadFile(t.root, file)
	if err != nil {
		return []string{err.Error()}, 0
	}
	walk(content, func(node ast.Node) {
		var destination string
		switch n := node.(type) {
		case *ast.Link:
			destination = string(n.Destination)
		case *ast.Image:
			destination = string(n.Destination)
		default:
			return
		}
		links++
		u, err := url.Parse(destination)
		if err != nil || u.Scheme == "" && !t.exists(resolve(file, u)) {
			problems = append(problems, fmt.Sprintf("%s: %s does not exist", file, destination))
		}
	})
	return problems, links
}

// resolve returns the path of a relative link from the repository's root, with its anchor.
func resolve(file string, u *url.URL) string {
	target := file
	if u.Path != "" {
		target = path.Join(path.Dir(file), u.Path)
	}
	if u.Fragment == "" {
		return target
	}
	return target + "#" + u.Fragment
}

// exists reports whether a path, relative to the root, and a heading of it exist.
func (t *tree) exists(address string) bool {
	file, anchor, _ := strings.Cut(address, "#")
	if !t.paths[file] {
		return false
	}
	if anchor == "" {
		return true
	}
	all, read := t.anchors[file]
	if !read {
		content, err := fs.ReadFile(t.root, file)
		if err != nil {
			return false
		}
		all = anchors(content)
		t.anchors[file] = all
	}
	return slices.Contains(all, anchor)
}

// removed matches what GitHub removes from a heading for its anchor.
var removed = regexp.MustCompile(`[^\p{L}\p{M}\p{N}\p{Pc} -]`)

// anchors returns the anchors that GitHub gives to the headings of a document: the text in
// lower case, without punctuation, with hyphens for spaces, and with a number from the
// second equal one on
// (https://docs.github.com/en/get-started/writing-on-github/getting-started-with-writing-and-formatting-on-github/basic-writing-and-formatting-syntax#section-links).
func anchors(document []byte) []string {
	var all []string
	times := make(map[string]int)
	walk(document, func(node ast.Node) {
		if node.Kind() != ast.KindHeading {
			return
		}
		anchor := strings.ReplaceAll(removed.ReplaceAllString(strings.ToLower(plain(node, document)), ""), " ", "-")
		if n := times[anchor]; n > 0 {
			all = append(all, anchor+"-"+strconv.Itoa(n))
		} else {
			all = append(all, anchor)
		}
		times[anchor]++
	})
	return all
}

// plain returns the text of a node without its markup.
func plain(node ast.Node, document []byte) string {
	var b strings.Builder
	for child := node.FirstChild(); child != nil; child = child.NextSibling() {
		switch n := child.(type) {
		case *ast.Text:
			b.Write(n.Segment.Value(document))
		case *ast.String:
			b.Write(n.Value)
		default:
			b.WriteString(plain(child, document))
		}
	}
	return b.String()
}

// walk calls visit for each node of a document.
func walk(document []byte, visit func(ast.Node)) {
	root := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(document))
	_ = ast.Walk(root, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			visit(node)
		}
		return ast.WalkContinue, nil
	})
}

// tracked are the files that git tracks or would add, relative to the root.
func tracked(t *testing.T) []string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	command.Dir = repository
	output, err := command.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	return slices.DeleteFunc(strings.Split(string(output), "\x00"), func(file string) bool {
		info, err := os.Lstat(filepath.Join(repository, file))
		return file == "" || err != nil || !info.Mode().IsRegular()
	})
}

// TestArchitecture: each step of a walk names a function of the file that it links to.
func TestArchitecture(t *testing.T) {
	const document = "docs/internals/architecture.md"
	content, err := os.ReadFile(filepath.Join(repository, document))
	if err != nil {
		t.Fatal(err)
	}
	step := regexp.MustCompile("(?m)^\\d+\\. \\[`(?:(\\w+)\\.)?(\\w+)`\\]\\(([^)]+)\\) ")
	found := step.FindAllStringSubmatch(string(content), -1)
	for _, m := range found {
		receiver, function, file := m[1], m[2], path.Join(path.Dir(document), m[3])
		source, err := os.ReadFile(filepath.Join(repository, file))
		if err != nil {
			t.Error(err)
			continue
		}
		head := `(?m)^func ` + function + `\(`
		if receiver != "" {
			head = `(?m)^func \(\w+ \*?` + receiver + `\) ` + function + `\(`
		}
		if !regexp.MustCompile(head).Match(source) {
			t.Errorf("%s has no function %s %s", file, receiver, function)
		}
	}
	if len(found) < 30 {
		t.Errorf("%d functions in %s, want at least 30", len(found), document)
	}
}
