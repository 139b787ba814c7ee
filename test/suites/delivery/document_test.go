// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/oc"
)

// The documents whose commands run here, and the marks of their blocks. test/run-readme runs
// README's blocks marked sh, and test/suites/packaging runs blocks marked sh packaging.
const (
	installFolder      = "docs/install/"
	machineConfigGuide = installFolder + "machineconfig.md"
	osImageGuide       = installFolder + "os-image.md"
	coreOSGuide        = installFolder + "fedora-coreos.md"
	systemdGuide       = installFolder + "systemd.md"
	lifeGuide          = "docs/upgrade-uninstall.md"
	installMark        = "sh"
	packagingMark      = "sh packaging"
	byHandMark         = "console" // not run by a test: each command has a prompt
	readmeDocument     = "README.md"
	readmeMark         = "shell"
)

// rehearsed are documents whose commands run in test/rehearsal (TestTutorial), in test/suites/fleets, or in
// build (TestReleaseIsReproducible).
var rehearsed = []string{
	"docs/tutorial.md", "docs/before-the-switch.md", "docs/runbooks/certificate-expired.md", installFolder + "fleets.md",
	"docs/verify-a-release.md",
}

// withOpenShift are sections whose commands test/rehearsal/openshift runs, word for word, with OpenShift's
// own programs (TestProcedures).
var withOpenShift = map[string][]string{
	machineConfigGuide: {
		"1. Render", "2. The node disruption policy, first", "3. The MachineConfigs", "Before a change",
	},
	lifeGuide:      {"Remove"},
	readmeDocument: {"Check health", "Not working?"},
}

// TestRunWithOpenShift holds that the tests with OpenShift's own programs run each of these blocks. Tests
// with a build tag do not count.
func TestRunWithOpenShift(t *testing.T) {
	var text strings.Builder
	for _, path := range must1(filepath.Glob(filepath.Join(host.Repository(), "test/rehearsal/openshift/*_test.go")))(t) {
		if file := must1(os.ReadFile(path))(t); !bytes.Contains(file, []byte("\n//go:build ")) {
			text.Write(file)
		}
	}
	for name, sections := range withOpenShift {
		mark := must1(testedDocuments())(t)[name]
		for _, section := range sections {
			blocks := openDocument(t, name, mark).blocks[section]
			for i := range blocks {
				if call := fmt.Sprintf("%q, %d", section, i); !strings.Contains(text.String(), call) {
					t.Errorf("no test calls %s", call)
				}
			}
			if len(blocks) == 0 {
				t.Errorf("%s has no section %q with commands", name, section)
			}
		}
	}
}

// otherKubernetes is a guide whose commands test/rehearsal/certificatefiles runs.
const otherKubernetes = installFolder + "other-kubernetes.md"

// testedDocuments returns the mark of the blocks that a test must run, by document.
func testedDocuments() (map[string]string, error) {
	marks := map[string]string{lifeGuide: installMark, readmeDocument: readmeMark}
	for _, name := range rehearsed {
		marks[name] = installMark
	}
	guides, err := filepath.Glob(filepath.Join(host.Repository(), installFolder, "*.md"))
	if err != nil || len(guides) == 0 {
		return nil, fmt.Errorf("%s has %d documents: %w", installFolder, len(guides), err)
	}
	for _, path := range guides {
		if name := installFolder + filepath.Base(path); name != otherKubernetes {
			marks[name] = installMark
		}
	}
	return marks, nil
}

// fenced is a fenced block of a document.
type fenced struct {
	section string
	mark    string // the words after the fence
	text    string
	line    int // of the fence
}

// readDocument returns all fenced blocks of a document.
func readDocument(name string) ([]fenced, error) {
	text, err := os.ReadFile(filepath.Join(host.Repository(), filepath.FromSlash(name)))
	if err != nil {
		return nil, fmt.Errorf("read a document: %w", err)
	}
	var all []fenced
	section, open, number := "", false, 0
	for line := range strings.Lines(string(text)) {
		number++
		mark, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case open && fence && mark == "":
			open = false
		case open:
			all[len(all)-1].text += line
		case fence:
			all, open = append(all, fenced{section, mark, "", number}), true
		case strings.HasPrefix(line, "# "), strings.HasPrefix(line, "## "), strings.HasPrefix(line, "### "):
			section = strings.TrimSpace(strings.TrimLeft(line, "#"))
		}
	}
	if open {
		return nil, fmt.Errorf("%s:%d: the block is not closed", name, all[len(all)-1].line)
	}
	return all, nil
}

// commandBlocks has the command blocks of a document by section.
type commandBlocks struct {
	name   string
	blocks map[string][]string
}

func openDocument(t *testing.T, name, mark string) *commandBlocks {
	t.Helper()
	h := must1(readCommandBlocks(name, mark))(t)
	if len(h.blocks) == 0 {
		t.Fatalf("%s has no block marked %s", name, mark)
	}
	return h
}

func readCommandBlocks(name, mark string) (*commandBlocks, error) {
	all, err := readDocument(name)
	if err != nil {
		return nil, err
	}
	h := &commandBlocks{name: name, blocks: map[string][]string{}}
	for _, f := range all {
		if f.mark == mark {
			h.blocks[f.section] = append(h.blocks[f.section], f.text)
		}
	}
	return h, nil
}

// onlyBlock returns the only block of a section, which the caller runs.
func (h *commandBlocks) onlyBlock(t *testing.T, section string) string {
	t.Helper()
	return h.block(t, section, 0, 1)
}

// block returns one block of a section, which the caller runs. The section must have the
// expected number of blocks.
func (h *commandBlocks) block(t *testing.T, section string, i, of int) string {
	t.Helper()
	blocks := h.blocks[section]
	if len(blocks) != of {
		t.Fatalf("%s: %q has %d blocks with commands, want %d", h.name, section, len(blocks), of)
	}
	shared.ran[h.title(section, i)] = true
	return blocks[i]
}

func (h *commandBlocks) title(section string, i int) string {
	return fmt.Sprintf("%s, %q, block %d", h.name, section, i+1)
}

// unusedBlocks returns the documents' blocks that no test ran.
func unusedBlocks(ran map[string]bool) ([]string, error) {
	marks, err := testedDocuments()
	if err != nil {
		return nil, err
	}
	var left []string
	for name, mark := range marks {
		if slices.Contains(rehearsed, name) {
			continue
		}
		h, err := readCommandBlocks(name, mark)
		if err != nil {
			return nil, err
		}
		for section, blocks := range h.blocks {
			if slices.Contains(withOpenShift[name], section) {
				continue
			}
			for i := range blocks {
				if title := h.title(section, i); !ran[title] {
					left = append(left, title)
				}
			}
		}
	}
	slices.Sort(left)
	return left, nil
}

// TestEveryCommandIsMarked holds that commands are only in blocks with a mark that a test
// runs.
func TestEveryCommandIsMarked(t *testing.T) {
	// The beginning of a command line, optionally after a prompt.
	command := regexp.MustCompile(`(?m)^\s*([$#]\s+)?(sudo\s+)?(oc|kubectl|make|systemctl|podman|curl|rm|sh|timeout|` +
		renderer + `) `)
	output := regexp.MustCompile(`^(Result|State|Problem|Warning): `) // of our programs, with a command below
	for name, mark := range must1(testedDocuments())(t) {
		marks := []string{
			mark, packagingMark, byHandMark, "yaml MachineOSConfig", "yaml MachineConfig",
			"yaml KlusterletConfig",
		}
		if name == readmeDocument {
			marks = []string{mark, "sh", "mermaid"}
		}
		for _, f := range must1(readDocument(name))(t) {
			switch {
			case f.mark == "" && !output.MatchString(f.text) && command.MatchString(f.text):
				t.Errorf("%s:%d: the block has commands and no mark: no test runs it", name, f.line)
			case f.mark != "" && !slices.Contains(marks, f.mark):
				t.Errorf("%s:%d: no test runs blocks marked %q: use one of %q", name, f.line, f.mark, marks)
			case f.mark == byHandMark && !strings.HasPrefix(f.text, "$ "):
				t.Errorf("%s:%d: a block marked %s begins with a prompt: no test runs it", name, f.line, byHandMark)
			}
		}
		text := must1(os.ReadFile(filepath.Join(host.Repository(), filepath.FromSlash(name))))(t)
		if regexp.MustCompile("(?m)^\\s*(~~~|````)").Match(text) {
			t.Errorf("%s: use three backticks for fences: no test runs other blocks", name)
		}
	}
}

// shell runs blocks of a document in its own directory. make works on the repository and
// writes into that directory. oc and the commands of hosts call back into this process.
type shell struct {
	t        *testing.T
	dir      string
	env      []string
	commands *oc.Commands
}

// prelude runs make in the repository and keeps files in this directory. MAKE_ARGUMENTS has
// further arguments, and AFTER_MAKE a command that edits the output.
const prelude = `set -euo pipefail
make() {
	local args=() arg
	for arg in "$@"; do
		case $arg in OUT=* | CONFIG=* | SUMS=*) arg="${arg%%=*}=$PWD/${arg#*=}" ;; esac
		args+=("$arg")
	done
	command make --no-print-directory -C "$REPOSITORY" "${args[@]}" $MAKE_ARGUMENTS
	${AFTER_MAKE:-true}
}
`

func newShell(t *testing.T, handlers map[string]oc.Handler) *shell {
	t.Helper()
	bin := t.TempDir()
	commands := must1(oc.NewCommands(bin, handlers))(t)
	t.Cleanup(func() {
		if err := commands.Close(); err != nil {
			t.Error(err)
		}
	})
	must(t, os.Symlink(filepath.Join(os.Getenv(binariesVariable), renderer), filepath.Join(bin, renderer)))
	s := &shell{t: t, dir: t.TempDir(), commands: commands}
	s.env = slices.Concat(os.Environ(), commands.Environment(), []string{
		"REPOSITORY=" + host.Repository(),
		"MAKE_ARGUMENTS=", "GOFLAGS=-buildvcs=false",
	})
	return s
}

// write writes a file into the shell's directory.
func (s *shell) write(name, content string) {
	s.t.Helper()
	must(s.t, os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o600))
}

// run executes text and returns its output.
func (s *shell) run(ctx context.Context, text string, env ...string) (string, error) {
	out, err := lab.Shell(ctx, s.dir, slices.Concat(s.env, env), prelude+text).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s\n%s", err, text, out)
	}
	return string(out), err
}

// section runs a section's commands block by block.
func (s *shell) section(h *commandBlocks, name string, env ...string) string {
	s.t.Helper()
	of := len(h.blocks[name])
	if of == 0 {
		s.t.Fatalf("%s has no section %q with commands", h.name, name)
	}
	var all strings.Builder
	for i := range of {
		out, err := s.run(s.t.Context(), h.block(s.t, name, i, of), env...)
		all.WriteString(out)
		must(s.t, err)
	}
	return all.String()
}
