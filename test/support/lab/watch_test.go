// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// terminal is a terminal with a shell. tmux provides its contents.
type terminal struct {
	t      *testing.T
	socket string
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	s := &terminal{t, filepath.Join(t.TempDir(), "tmux")}
	s.tmux("-f", "/dev/null", "new-session", "-d", "-x", "150", "-y", "60",
		"env", "LANG=C.UTF-8", "NO_COLOR=", "HISTFILE=", "PS1=shell$ ", "bash", "--norc", "--noprofile", "-i")
	t.Cleanup(func() {
		_ = exec.CommandContext(context.Background(), "tmux", "-S", s.socket, "kill-server").Run()
	})
	return s
}

func (s *terminal) tmux(args ...string) string {
	s.t.Helper()
	out, err := exec.CommandContext(s.t.Context(), "tmux", append([]string{"-u", "-S", s.socket},
		args...)...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return string(out)
}

// sendKeys sends keyboard input.
func (s *terminal) sendKeys(keys ...string) {
	s.t.Helper()
	s.tmux(append([]string{"send-keys"}, keys...)...)
}

// awaitText waits until the terminal has each text, and returns its contents.
func (s *terminal) awaitText(texts ...string) string {
	s.t.Helper()
	var seen string
	must(s.t, Eventually(s.t.Context(), fmt.Sprintf("%q on the screen", texts), func(context.Context) error {
		seen = s.tmux("capture-pane", "-p")
		for _, text := range texts {
			if !strings.Contains(seen, text) {
				return fmt.Errorf("no %q there:\n%s", text, seen)
			}
		}
		return nil
	}))
	return seen
}

// TestWatch runs the status command with --watch on a terminal.
func TestWatch(t *testing.T) {
	l, binary := cluster(t)
	master := l.ControlPlane[0].Node
	service := start(t, master, ServiceOptions{})
	awaitReason(t, service, "Serving")
	challenge := func(token string) {
		t.Helper()
		_, err := l.Internet.Raw(t.Context(), web(l.API.V4), "GET /.well-known/acme-challenge/"+token+
			" HTTP/1.1\r\nHost: api.lab.test\r\nUser-Agent: cert-manager-challenges/v1.18.2 (linux/amd64) cert-manager/x\r\n\r\n")
		must(t, err)
	}
	challenge("first-token-of-all")

	s := newTerminal(t)
	s.sendKeys("echo was here", "Enter")
	s.awaitText("\nwas here\n")
	s.sendKeys(fmt.Sprintf("%s status --status-socket %s --watch --interval 200ms", binary, master.StatusSocket()),
		"Enter")
	seen := s.awaitText("Serving, with 1 problem", "first-to…", l.API.V4.String()+" held here")
	if strings.Contains(seen, "shell$") || strings.Contains(seen, "was here") {
		t.Errorf("the earlier contents are still visible:\n%s", seen)
	}
	if earlier := s.tmux("capture-pane", "-p", "-S", "-"); !strings.Contains(earlier, "was here") {
		t.Errorf("the earlier contents are not scrolled, but lost:\n%s", earlier)
	}
	if coloured := s.tmux("capture-pane", "-p", "-e"); !strings.Contains(coloured, "\x1b[31m✗") {
		t.Errorf("no colour:\n%q", coloured)
	}
	challenge("later-token-of-all")
	seen = s.awaitText("later-to…")
	if strings.Index(seen, "later-to…") > strings.Index(seen, "first-to…") {
		t.Errorf("the newest challenge is not the first:\n%s", seen)
	}

	// The service restarts.
	stop(t, service)
	s.awaitText("✗ NotRunning", "systemctl enable --now http01-proxyd")
	start(t, master, ServiceOptions{})
	must(t, Eventually(t.Context(), "the service to be back", func(context.Context) error {
		if seen := s.tmux("capture-pane", "-p"); !strings.Contains(seen, " Serving") {
			return errors.New(seen)
		}
		return nil
	}))

	// In a small window nothing scrolls and no line is longer than the window.
	s.tmux("resize-window", "-x", "50", "-y", "14")
	seen = s.awaitText(" Serving", " more lines")
	lines := strings.Split(strings.TrimSuffix(seen, "\n"), "\n")
	if len(lines) != 14 || !strings.Contains(lines[0], "http01-proxyd on ") {
		t.Errorf("%d lines:\n%s", len(lines), seen)
	}
	for _, line := range lines {
		if utf8.RuneCountInString(line) > 50 {
			t.Errorf("too long: %s", line)
		}
	}
	s.tmux("resize-window", "-x", "150", "-y", "60")

	// After Ctrl-Z, the shell can be used. The watch continues in its place.
	s.sendKeys("C-z")
	s.awaitText("Stopped", "shell$")
	s.sendKeys("fg", "Enter")
	must(t, Eventually(t.Context(), "the watch to continue", func(context.Context) error {
		if seen := s.tmux("capture-pane", "-p"); strings.Contains(seen, "shell$") || !strings.Contains(seen, " Serving") {
			return errors.New(seen)
		}
		return nil
	}))

	// The last state stays.
	s.sendKeys("C-c")
	s.awaitText(" Serving", "shell$")
	s.sendKeys("echo exit code $?", "Enter")
	s.awaitText("exit code 0")
}
