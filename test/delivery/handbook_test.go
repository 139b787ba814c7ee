// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/oc"
)

// handbook is docs/install.md: the fenced blocks marked sh of each section.
type handbook struct {
	blocks map[string][]string
	seen   map[string]bool // sections whose commands have run
}

func openHandbook(t *testing.T) *handbook {
	t.Helper()
	return openDocument(t, filepath.Join("docs", "install.md"), "```sh\n")
}

// openDocument reads the blocks of a document that are fenced like this.
func openDocument(t *testing.T, name, fence string) *handbook {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository(), name))
	must(t, err)
	h := &handbook{blocks: map[string][]string{}, seen: map[string]bool{}}
	section, block, inside := "", "", false
	for line := range strings.Lines(string(text)) {
		switch {
		case inside && line == "```\n":
			h.blocks[section], block, inside = append(h.blocks[section], block), "", false
		case inside:
			block += line
		case line == fence:
			inside = true
		case strings.HasPrefix(line, "## "), strings.HasPrefix(line, "### "):
			section = strings.TrimSpace(strings.TrimLeft(line, "#"))
		}
	}
	if inside || len(h.blocks) == 0 {
		t.Fatalf("%s has no whole block that begins %q", name, fence)
	}
	return h
}

// shell runs blocks of the handbook in a directory of its own. `make` works on
// the repository and writes into that directory; oc and the commands of hosts
// come back into this process.
type shell struct {
	t        *testing.T
	dir      string
	env      []string
	commands *oc.Commands
}

// prelude leads make to the repository and keeps files in this directory.
const prelude = `set -euo pipefail
make() {
	local args=() arg
	for arg in "$@"; do
		case $arg in OUT=* | CONFIG=* | SUMS=*) arg="${arg%%=*}=$PWD/${arg#*=}" ;; esac
		args+=("$arg")
	done
	command make --no-print-directory -C "$REPOSITORY" "${args[@]}" $MAKE_ARGUMENTS
}
`

func newShell(t *testing.T, handlers map[string]oc.Handler) *shell {
	t.Helper()
	bin := t.TempDir()
	commands, err := oc.NewCommands(bin, handlers)
	must(t, err)
	t.Cleanup(func() {
		if err := commands.Close(); err != nil {
			t.Error(err)
		}
	})
	must(t, os.Symlink(filepath.Join(os.Getenv(binariesVariable), renderer), filepath.Join(bin, renderer)))
	s := &shell{t: t, dir: t.TempDir(), commands: commands}
	s.env = slices.Concat(os.Environ(), commands.Environment(), []string{"REPOSITORY=" + repository(), "MAKE_ARGUMENTS=", "GOFLAGS=-buildvcs=false"})
	return s
}

// write puts a file into the shell's directory.
func (s *shell) write(name, content string) {
	s.t.Helper()
	must(s.t, os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o600))
}

// run executes text and returns all that it prints.
func (s *shell) run(ctx context.Context, text string, env ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "bash", "-c", prelude+text)
	cmd.Dir, cmd.Env = s.dir, slices.Concat(s.env, env)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%w\n%s\n%s", err, text, out.String())
	}
	return out.String(), nil
}

// section runs a section's commands, block after block.
func (s *shell) section(h *handbook, name string, env ...string) string {
	s.t.Helper()
	blocks, found := h.blocks[name]
	if !found {
		s.t.Fatalf("there is no section %q with commands", name)
	}
	h.seen[name] = true
	var all strings.Builder
	for _, block := range blocks {
		out, err := s.run(s.t.Context(), block, env...)
		all.WriteString(out)
		must(s.t, err)
	}
	return all.String()
}
