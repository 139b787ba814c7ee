// SPDX-License-Identifier: Apache-2.0

package certificatefiles

import (
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

const (
	folder   = "../../../docs/install/certificate-files/"
	document = "../../../docs/install/other-kubernetes.md"
	script   = folder + "http01-certificate-files"
	name     = "api.example.com"
	secret   = "api-certificate/api-certificate"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A copier runs the script with a shell. The program kubectl in bin answers for the API server.
type copier struct {
	shell  string
	bin    string // the first folder of PATH
	target string
}

func newCopier(t *testing.T, shell string) *copier {
	t.Helper()
	c := &copier{shell: shell, bin: t.TempDir(), target: filepath.Join(t.TempDir(), "target")}
	must(t, os.Mkdir(c.target, 0o750))
	return c
}

// program writes a shell program to bin.
func (c *copier) program(t *testing.T, name, text string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(c.bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
}

// answer is what kubectl prints for a Secret: both values in base64.
func answer(chain, key []byte) string {
	encode := base64.StdEncoding.EncodeToString
	return "printf %s '" + encode(chain) + " " + encode(key) + "'"
}

func (c *copier) command(t *testing.T) *exec.Cmd {
	t.Helper()
	command := exec.CommandContext(t.Context(), c.shell, script)
	command.Env = []string{
		"PATH=" + c.bin + ":/usr/bin:/bin", "TMPDIR=" + t.TempDir(), "CREDENTIALS_DIRECTORY=/nonexistent",
		"SECRET=" + secret, "NAME=" + name, "TARGET=" + c.target,
	}
	return command
}

// run returns the output of the script, and its exit code; -1 after a signal.
func (c *copier) run(t *testing.T) (output string, code int) {
	t.Helper()
	text, err := c.command(t).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit != nil {
		code = exit.ExitCode()
	}
	return string(text), code
}

// copied runs the script with a pair, and requires that the files are this pair.
func (c *copier) copied(t *testing.T, id lab.Identity) {
	t.Helper()
	c.program(t, "kubectl", answer(id.Chain, id.Key))
	if output, code := c.run(t); code != 0 {
		t.Fatalf("exit code %d: %s", code, output)
	}
	c.holds(t, "current", id)
}

// holds requires that a link leads to one of these pairs.
func (c *copier) holds(t *testing.T, link string, pairs ...lab.Identity) {
	t.Helper()
	chain, err := os.ReadFile(filepath.Join(c.target, link, "tls.crt"))
	must(t, err)
	key, err := os.ReadFile(filepath.Join(c.target, link, "tls.key"))
	must(t, err)
	for _, id := range pairs {
		if string(chain) == string(id.Chain) && string(key) == string(id.Key) {
			return
		}
	}
	t.Fatalf("%s is none of the %d expected pairs:\n%s", link, len(pairs), chain)
}

// tree returns the entries of the target with the targets of links.
func (c *copier) tree(t *testing.T) []string {
	t.Helper()
	var all []string
	must(t, filepath.WalkDir(c.target, func(path string, _ os.DirEntry, err error) error {
		link, _ := os.Readlink(path)
		all = append(all, strings.TrimPrefix(path, c.target)+" "+link)
		return err
	}))
	return all
}

func authority(t *testing.T) *lab.Authority {
	t.Helper()
	root, err := lab.NewAuthority("root")
	must(t, err)
	ca, err := root.Intermediate("intermediate")
	must(t, err)
	return ca
}

func issue(t *testing.T, ca *lab.Authority, certificate lab.ServerCertificate) lab.Identity {
	t.Helper()
	id, err := ca.Issue(certificate)
	must(t, err)
	return id
}

// shells are the two that /bin/sh is on the supported hosts.
func shells() []string { return []string{"dash", "bash"} }

// TestCopy: the first copy, the same Secret again, and renewals. The replaced pair is kept, and
// only that one.
func TestCopy(t *testing.T) {
	for _, shell := range shells() {
		t.Run(shell, func(t *testing.T) {
			c, ca := newCopier(t, shell), authority(t)
			valid := lab.ServerCertificate{Names: []string{"other.example.com", name}}
			first, second, third := issue(t, ca, valid), issue(t, ca, valid), issue(t, ca, valid)
			c.copied(t, first)
			if _, err := os.Lstat(filepath.Join(c.target, "previous")); err == nil {
				t.Error("the first copy has a previous pair")
			}
			before := c.tree(t)
			c.copied(t, first)
			if diff := cmp.Diff(before, c.tree(t)); diff != "" {
				t.Errorf("an unchanged Secret changed the files (-before +after):\n%s", diff)
			}
			c.copied(t, second)
			c.holds(t, "previous", first)
			c.copied(t, third)
			c.holds(t, "previous", second)
			pairs, err := filepath.Glob(filepath.Join(c.target, "pair-*"))
			must(t, err)
			if len(pairs) != 2 {
				t.Errorf("pairs: %v, want the current and the previous one", pairs)
			}
		})
	}
}

// TestRefused: nothing is replaced, and the only line of output has the reason.
func TestRefused(t *testing.T) {
	ca := authority(t)
	now := time.Now()
	valid := issue(t, ca, lab.ServerCertificate{Names: []string{name}})
	other := issue(t, ca, lab.ServerCertificate{Names: []string{name}})
	stranger := issue(t, authority(t), lab.ServerCertificate{Names: []string{name}})
	root, err := lab.NewAuthority("root")
	must(t, err)
	leaf := issue(t, root, lab.ServerCertificate{Names: []string{name}})
	wrongName := issue(t, ca, lab.ServerCertificate{Names: []string{"xapi.example.com", "api.example.com.test"}})
	expired := issue(t, ca, lab.ServerCertificate{Names: []string{name}, NotAfter: now.Add(-time.Minute)})
	future := issue(t, ca, lab.ServerCertificate{Names: []string{name}, NotBefore: now.Add(time.Hour)})
	foreignChain := append(slices.Clone(leaf.Chain), stranger.Chain[len(leaf.Chain):]...)
	const unreachable = "The connection to the server 127.0.0.1:6443 was refused - did you specify the right host or port?"
	for _, test := range []struct{ name, kubectl, act, reason string }{
		{
			"Secret missing", `echo 'Error from server (NotFound): secrets "api-certificate" not found' >&2; exit 1`,
			"read", `Error from server (NotFound): secrets "api-certificate" not found`,
		},
		{"API server unreachable", "echo '" + unreachable + "' >&2; exit 1", "read", unreachable},
		{"another key", answer(valid.Chain, other.Key), "use", "tls.key is another key"},
		{"no key", answer(valid.Chain, nil), "use", "tls.key is another key"},
		{"expired", answer(expired.Chain, expired.Key), "use", "certificate has expired"},
		{"not yet valid", answer(future.Chain, future.Key), "use", "certificate is not yet valid"},
		{
			"wrong name", answer(wrongName.Chain, wrongName.Key),
			"use", "the certificate does not contain the name api.example.com",
		},
		{"no base64", "printf '%s' '!!!! !!!!'", "use", "tls.crt is not base64"},
		{"garbage", answer([]byte("garbage"), valid.Key), "use", "tls.crt contains no certificate"},
		{"empty", "printf ' '", "use", "tls.crt contains no certificate"},
		{"truncated", answer(valid.Chain[:300], valid.Key), "use", "tls.crt contains no certificate"},
		{
			"no chain", answer(leaf.Chain, leaf.Key),
			"use", "tls.crt does not contain the certificate of the issuing CA",
		},
		{"chain of another CA", answer(foreignChain, leaf.Key), "use", "unable to get local issuer certificate"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, shell := range shells() {
				t.Run(shell, func(t *testing.T) {
					c := newCopier(t, shell)
					c.copied(t, valid)
					before := c.tree(t)
					c.program(t, "kubectl", test.kubectl)
					output, code := c.run(t)
					want := "cannot " + test.act + " the Secret " + secret + ": " + test.reason + ". "
					if test.act == "use" {
						want += "Run kubectl describe certificate --namespace=api-certificate. "
					}
					want += "Nothing was replaced in " + c.target + ".\n"
					if diff := cmp.Diff(want, output); diff != "" || code != 1 {
						t.Errorf("exit code %d, output (-want +got):\n%s", code, diff)
					}
					c.holds(t, "current", valid)
					if diff := cmp.Diff(before, c.tree(t)); diff != "" {
						t.Errorf("files (-before +after):\n%s", diff)
					}
				})
			}
		})
	}
}

// TestTargetMissing: without its folder, the script names it.
func TestTargetMissing(t *testing.T) {
	c := newCopier(t, "sh")
	id := issue(t, authority(t), lab.ServerCertificate{Names: []string{name}})
	c.program(t, "kubectl", answer(id.Chain, id.Key))
	must(t, os.Remove(c.target))
	output, code := c.run(t)
	if code != 1 || !strings.HasPrefix(output, "cannot write to "+c.target+": mkdir: ") {
		t.Errorf("exit code %d: %s", code, output)
	}
}

// TestKilled: before each command that changes the files, the script is killed. Both links lead
// to a whole pair, and the next run completes the copy.
func TestKilled(t *testing.T) {
	for _, shell := range shells() {
		t.Run(shell, func(t *testing.T) {
			ca := authority(t)
			valid := lab.ServerCertificate{Names: []string{name}}
			oldest, older, renewed := issue(t, ca, valid), issue(t, ca, valid), issue(t, ca, valid)
			kills := 0
			for {
				c := newCopier(t, shell)
				c.copied(t, oldest)
				c.copied(t, older)
				c.program(t, "kubectl", answer(renewed.Chain, renewed.Key))
				calls := filepath.Join(t.TempDir(), "calls")
				for _, command := range []string{"mkdir", "cp", "sync", "ln", "mv", "rm"} {
					c.program(t, command, `echo >>`+calls+`
[ "$(wc -l <`+calls+`)" -ne `+strconv.Itoa(kills+1)+` ] || { kill -KILL "$PPID"; exit 1; }
exec /bin/`+command+` "$@"`)
				}
				output, code := c.run(t)
				c.holds(t, "current", older, renewed)
				c.holds(t, "previous", oldest, older)
				if code == 0 {
					break
				}
				if code != -1 {
					t.Fatalf("exit code %d instead of a signal: %s", code, output)
				}
				kills++
				must(t, os.RemoveAll(c.bin))
				must(t, os.Mkdir(c.bin, 0o755))
				c.copied(t, renewed)
				c.holds(t, "previous", oldest, older)
				if left := len(c.tree(t)); left != 9 { // the target, two links, two pairs of two files
					t.Errorf("after kill %d: %v", kills, c.tree(t))
				}
			}
			if kills < 12 {
				t.Errorf("the script was killed %d times, want at each of its steps", kills)
			}
		})
	}
}

// TestReaders: as a user without rights, the script writes files for the group of the folder
// only.
func TestReaders(t *testing.T) {
	const user, group = 65534, 0
	open := t.TempDir()
	must(t, os.Chmod(filepath.Dir(open), 0o755)) // the folder that only this test has
	c := &copier{shell: "sh", bin: filepath.Join(open, "bin"), target: filepath.Join(open, "target")}
	temporary := filepath.Join(open, "tmp")
	for _, path := range []string{c.bin, c.target, temporary} {
		must(t, os.Mkdir(path, 0o755))
		must(t, os.Chown(path, user, group))
	}
	must(t, os.Chmod(c.target, 0o750|os.ModeSetgid))
	id := issue(t, authority(t), lab.ServerCertificate{Names: []string{name}})
	c.program(t, "kubectl", answer(id.Chain, id.Key))
	command := c.command(t)
	command.Env = append(command.Env, "TMPDIR="+temporary)
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	for path, want := range map[string]os.FileMode{"current/": 0o750, "current/tls.crt": 0o640, "current/tls.key": 0o640} {
		info, err := os.Stat(filepath.Join(c.target, path))
		must(t, err)
		owner, ok := info.Sys().(*syscall.Stat_t)
		if !ok || info.Mode().Perm() != want || owner.Uid != user || owner.Gid != group {
			t.Errorf("%s: mode %o, owner %d:%d, want %o, %d:%d", path, info.Mode().Perm(), owner.Uid, owner.Gid, want, user, group)
		}
	}
}

// TestDocument: each drop-in permits writes to its target only, and the API server's argument of
// the same distribution names the files there.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile(document)
	must(t, err)
	blocks := strings.Split(string(text), "```ini certificate-files\n")[1:]
	if len(blocks) != 3 {
		t.Fatalf("%d drop-ins, want one each for kubeadm, RKE2 and MicroShift", len(blocks))
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		_, target, _ := strings.Cut(block, "Environment=TARGET=")
		target, _, _ = strings.Cut(target, "\n")
		if !strings.Contains(block, "\nReadWritePaths="+target+"\n") || strings.Count(block, "ReadWritePaths=") != 1 {
			t.Errorf("ReadWritePaths= is not TARGET:\n%s", block)
		}
		for _, want := range []string{
			"install -d -o http01-certificate -g root -m 2750 " + target + "\n",
			target + "/current/tls.crt", target + "/current/tls.key",
		} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s has no %q", document, want)
			}
		}
	}
	lines, err := os.ReadFile(script)
	must(t, err)
	if n := strings.Count(string(lines), "\n"); n > 60 {
		t.Errorf("the script has %d lines, more than 60", n)
	}
}
