// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/check"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

// TestCommandOn pastes each command into a real shell, whose oc runs what follows "chroot /host" as a node
// does. The node gets the command as it was, and the shell of the workstation runs nothing else.
func TestCommandOn(t *testing.T) {
	t.Parallel()
	for command, quoted := range map[string]bool{
		"printf %s 2001:db8::5":                            false,
		"printf %s --zone=internal 8888/tcp":               false,
		`printf '%s|' "a b" 'c d'`:                         true,
		"printf %s $(printf x)y":                           true,
		"printf %s `printf x`":                             true,
		"printf x | tr x y; printf z":                      true,
		"printf %s \"$NODE\"":                              true,
		"A=1; printf %s \"$A\"":                            true,
		"A=1 sh -c 'printf %s \"$A\"'":                     true,
		"printf x >\"$NODE_DIR/file\"; ls \"$NODE_DIR\"":   true,
		"printf '%s' 'it'\\''s'; printf \\\\; printf '!x'": true,
		"false || printf %s ~/x* [a]":                      true,
	} {
		dir := t.TempDir()
		env := []string{"NODE=master0", "NODE_DIR=" + dir, "HOME=/root", "PATH=" + os.Getenv("PATH")}
		want := run(t, env, command)
		oc := "#!/bin/sh\n[ \"$*\" != \"${*#debug node/master0 -- chroot /host }\" ] || exit 9\n" +
			"shift 5; NODE=master0 NODE_DIR=" + dir + " exec \"$@\"\n"
		bin := t.TempDir()
		if err := os.WriteFile(filepath.Join(bin, "oc"), []byte(oc), 0o755); err != nil {
			t.Fatal(err)
		}
		form := check.CommandOn("master0", command)
		if strings.Contains(form, "sh -c ") != quoted && !strings.Contains(command, "sh -c") {
			t.Errorf("%s: %s", command, form)
		}
		path := bin + ":" + os.Getenv("PATH")
		got := run(t, []string{"NODE=workstation", "NODE_DIR=/nowhere", "HOME=/root", "PATH=" + path}, form)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s\nas %s (-want +got):\n%s", command, form, diff)
		}
	}
	for _, command := range []string{
		"", " ", "nft list tables\nreboot", "nft \x1b[2Jlist", "nft \u202e", strings.Repeat("a", 1<<20),
	} {
		if got := check.CommandOn("m0", command); got != "" {
			t.Errorf("%.100q: %q", command, got)
		}
	}
}

func run(t *testing.T, env []string, command string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "/bin/sh", "-c", command)
	c.Env = env
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v: %s", command, err, out)
	}
	return string(out)
}

// TestCommands: a command of oc has the rights of the administrator, so it must be one of the finding.
func TestCommands(t *testing.T) {
	t.Parallel()
	got := check.Commands("m0", findings.PoolDegraded, []string{
		"oc describe mcp master", "oc describe mcp --kubeconfig=x", "oc delete node m1", "oc http01 check", "ip rule",
		"oc\tdelete node m1", "true; oc delete node m1",
	})
	want := []string{
		"oc describe mcp master", "oc debug node/m0 -- chroot /host ip rule",
		"oc debug node/m0 -- chroot /host sh -c 'true; oc delete node m1'",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
