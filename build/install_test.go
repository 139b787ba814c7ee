// SPDX-License-Identifier: Apache-2.0

package build_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// program writes what is installed as the binary.
func program(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "http01-proxyd-linux-amd64")
	must(t, os.WriteFile(file, []byte("#!/bin/sh\n"), 0o700))
	return file
}

// admin runs make as an admin does, here in the tree.
func admin(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	// The last one counts.
	args = slices.Concat([]string{"-f", "build/release.mk", "SHARE=" + filepath.Join(t.TempDir(), "none")}, args)
	return run(t, "..", env, "make", args...)
}

// installed lists the files below dir as "mode path".
func installed(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		all = append(all, fmt.Sprintf("%04o %s", info.Mode().Perm(), strings.TrimPrefix(path, dir)))
		return nil
	})
	must(t, err)
	return all
}

func TestInstallAndUninstall(t *testing.T) {
	t.Parallel()
	binary := program(t)
	for name, tt := range map[string]struct {
		args   []string
		files  []string
		unit   string
		starts string
	}{
		"by default": {nil, []string{
			"0755 /usr/local/bin/http01-proxyd",
			"0644 /usr/local/lib/systemd/catalog/http01-proxyd.catalog",
			"0644 /usr/local/lib/systemd/system/http01-proxyd-table.service",
			"0644 /usr/local/lib/systemd/system/http01-proxyd.service",
		}, "/usr/local/lib/systemd/system/http01-proxyd.service", "/usr/local/bin/http01-proxyd"},
		"as a package": {[]string{"PREFIX=/usr"}, []string{
			"0755 /usr/bin/http01-proxyd",
			"0644 /usr/lib/systemd/catalog/http01-proxyd.catalog",
			"0644 /usr/lib/systemd/system/http01-proxyd-table.service",
			"0644 /usr/lib/systemd/system/http01-proxyd.service",
		}, "/usr/lib/systemd/system/http01-proxyd.service", "/usr/bin/http01-proxyd"},
		"where systemd does not look": {[]string{"PREFIX=/opt/http01"}, []string{
			"0644 /etc/systemd/system/http01-proxyd-table.service",
			"0644 /etc/systemd/system/http01-proxyd.service",
			"0755 /opt/http01/bin/http01-proxyd",
			"0644 /usr/local/lib/systemd/catalog/http01-proxyd.catalog",
		}, "/etc/systemd/system/http01-proxyd.service", "/opt/http01/bin/http01-proxyd"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			args := append([]string{"DESTDIR=" + root, "BINARY=" + binary}, tt.args...)
			// Twice: an upgrade is another install.
			for range 2 {
				if out, err := admin(t, nil, append(args, "install")...); err != nil || strings.Contains(out, "systemctl") {
					t.Fatalf("into a staging directory: %v, and no word of what to start:\n%s", err, out)
				}
			}
			if diff := cmp.Diff(tt.files, installed(t, root)); diff != "" {
				t.Errorf("files, -want +got:\n%s", diff)
			}
			checkCatalog(t, root, tt.files)
			checkUnit(t, filepath.Join(root, tt.unit), "ExecStart="+tt.starts+" run", tt.starts)
			checkUnit(t, filepath.Join(root, filepath.Dir(tt.unit), "http01-proxyd-table.service"), "ExecStop=-"+tt.starts+
				" cleanup", tt.starts)

			foreign := filepath.Join(root, filepath.Dir(tt.unit), "foreign.service")
			must(t, os.WriteFile(foreign, nil, 0o600))
			if out, err := admin(t, nil, append(args, "uninstall")...); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if diff := cmp.Diff([]string{"0600 " + strings.TrimPrefix(foreign, root)}, installed(t, root)); diff != "" {
				t.Errorf("after the uninstall, -want +got:\n%s", diff)
			}
		})
	}
}

// TestInstallShare: man pages and completion files are those that the commands generate,
// and exist for each command of the help.
func TestInstallShare(t *testing.T) {
	t.Parallel()
	share, root := filepath.Join(t.TempDir(), "share"), t.TempDir()
	args := []string{"SHARE=" + share, "DESTDIR=" + root, "BINARY=" + program(t)}
	for _, target := range []string{"share", "install"} {
		if out, err := admin(t, nil, append(args, target)...); err != nil || strings.Contains(out, "does not exist") {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	got := installed(t, filepath.Join(root, "usr/local/share"))
	for _, want := range []string{
		"0644 /bash-completion/completions/http01-proxyd", "0644 /fish/vendor_completions.d/http01-proxyd.fish",
		"0644 /man/man5/http01-proxyd.yaml.5", "0644 /man/man8/http01-proxyd-status.8", "0644 /man/man8/http01-proxyd.8",
		"0644 /zsh/site-functions/_http01-proxyd",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not installed, of\n%s", want, strings.Join(got, "\n"))
		}
	}
	if slices.ContainsFunc(got, func(f string) bool { return strings.Contains(f, "oc-http01") }) {
		t.Errorf("files of another program are installed: %q", got)
	}
	if _, err := os.Stat(filepath.Join(share, "man/man1/oc-http01-status.1")); err != nil {
		t.Error(err)
	}
	if page := string(must1(os.ReadFile(filepath.Join(root, "usr/local/share/man/man8/http01-proxyd.8")))(
		t)); !strings.Contains(page, ".SH FILES") {
		t.Errorf("http01-proxyd.8 has no files:\n%s", page)
	}
	unit := string(must1(os.ReadFile(filepath.Join(root, "usr/local/lib/systemd/system/http01-proxyd.service")))(t))
	if !strings.Contains(unit, "\nDocumentation=man:http01-proxyd(8)") {
		t.Errorf("the unit does not name the installed man page:\n%s", unit)
	}
	if out, err := admin(t, nil, append(args, "uninstall")...); err != nil || len(installed(t, root)) > 0 {
		t.Errorf("%v, and %q are left:\n%s", err, installed(t, root), out)
	}
}

// checkCatalog: it is the one in systemd/, and journalctl of this machine
// compiles it out of the directory where it was installed.
func checkCatalog(t *testing.T, root string, files []string) {
	t.Helper()
	const name = "http01-proxyd.catalog"
	i := slices.IndexFunc(files, func(file string) bool { return strings.HasSuffix(file, name) })
	got := must1(os.ReadFile(filepath.Join(root, strings.Fields(files[i])[1])))(t)
	want := must1(os.ReadFile(filepath.Join("../systemd", name)))(t)
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the catalog, -want +got:\n%s", diff)
	}
	succeed(t, root, "journalctl", "--root="+root, "--update-catalog")
	list := succeed(t, root, "journalctl", "--root="+root, "--list-catalog")
	if compiled, shipped := strings.Count(list, " http01-proxyd: "),
		strings.Count(string(want), "\nSubject: "); compiled != shipped {
		t.Errorf("journalctl has %d of the catalog's %d entries:\n%s", compiled, shipped, list)
	}
	must(t, os.RemoveAll(filepath.Join(root, "var")))
}

// checkUnit: it is the one in systemd/, but for where the binary is.
func checkUnit(t *testing.T, file, line, starts string) {
	t.Helper()
	got := must1(os.ReadFile(file))(t)
	want := must1(os.ReadFile(filepath.Join("../systemd", filepath.Base(file))))(t)
	if diff := cmp.Diff(strings.ReplaceAll(string(want), "/usr/local/bin/http01-proxyd", starts),
		string(got)); diff != "" {
		t.Errorf("the unit, -want +got:\n%s", diff)
	}
	if !strings.Contains(string(got), "\n"+line+"\n") {
		t.Errorf("the unit does not contain %s:\n%s", line, got)
	}
}

// TestInstalledUnitVerifies has systemd judge what was installed under a prefix
// of its own, next to the binary that it names.
func TestInstalledUnitVerifies(t *testing.T) {
	t.Parallel()
	prefix := t.TempDir()
	tools := fakeTools(t, map[string]string{"journalctl": "exit 1"}) // no reason to fail
	out, err := admin(t, tools.env, "install", "PREFIX="+prefix, "UNITDIR="+prefix, "CATALOGDIR="+prefix, "BINARY="+
		program(t))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"not started", "systemctl enable --now http01-proxyd",
		"systemctl restart http01-proxyd",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the admin does not read %q:\n%s", want, out)
		}
	}
	succeed(t, prefix, "systemd-analyze", "verify", "--man=no", filepath.Join(prefix, "http01-proxyd.service"),
		filepath.Join(prefix, "http01-proxyd-table.service"))
}

func TestInstallNamesMissingFiles(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	out, err := admin(t, nil, "install", "DESTDIR="+root, "BINARY="+root+"/missing")
	if err == nil || !strings.Contains(out, root+"/missing does not exist: run make build first") {
		t.Errorf("got %v and %q", err, out)
	}
	if got := installed(t, root); len(got) > 0 {
		t.Errorf("it has installed %q", got)
	}
}

// tools are fake commands that replace the host's.
type tools struct {
	env   []string
	calls string // a file with a line for each call
}

// fakeTools creates them from their scripts, by name.
func fakeTools(t *testing.T, scripts map[string]string) tools {
	t.Helper()
	dir := t.TempDir()
	made := tools{[]string{"PATH=" + dir + ":" + os.Getenv("PATH")}, filepath.Join(dir, "calls")}
	for name, script := range scripts {
		script = fmt.Sprintf("#!/bin/sh\necho \"%s $*\" >>%s\n%s\n", name, made.calls, script)
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700))
	}
	return made
}

// updates counts how often the catalogs were compiled.
func (m tools) updates(t *testing.T) int {
	t.Helper()
	calls := must1(os.ReadFile(m.calls))(t)
	return strings.Count(string(calls), "journalctl --update-catalog\n")
}

func TestUninstallWithRunningService(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		active, enabled int
		removed         bool
	}{
		"running":              {0, 1, false},
		"enabled":              {3, 0, false},
		"stopped, not enabled": {3, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := t.TempDir()
			tools := fakeTools(t, map[string]string{
				"systemctl": fmt.Sprintf("case $1 in is-active) exit %d ;; is-enabled) exit %d ;; esac\nexit 99", tt.active,
					tt.enabled),
				"journalctl": "",
			})
			args := []string{"PREFIX=" + prefix, "UNITDIR=" + prefix, "CATALOGDIR=" + prefix, "BINARY=" + program(t)}
			if out, err := admin(t, tools.env, append(args, "install")...); err != nil || tools.updates(t) != 1 {
				t.Fatalf("%v, and the catalogs were compiled %d times\n%s", err, tools.updates(t), out)
			}
			out, err := admin(t, tools.env, append(args, "uninstall")...)
			left := files(t, prefix)
			if tt.removed && (err != nil || len(left) > 0 || tools.updates(t) != 2 ||
				!strings.Contains(out, "systemctl daemon-reload\n")) {
				t.Errorf("%v, and %q are left:\n%s", err, slices.Sorted(maps.Keys(left)), out)
			}
			if !tt.removed && (err == nil || len(left) != 4 || tools.updates(t) != 1 ||
				!strings.Contains(out, "systemctl disable --now http01-proxyd\n")) {
				t.Errorf("%v, and %q are left:\n%s", err, slices.Sorted(maps.Keys(left)), out)
			}
			before, after := documented(t)
			if tt.removed {
				before = after
			}
			for _, line := range before {
				if !strings.Contains(out, "  "+line+"\n") {
					t.Errorf("docs/install/systemd.md has %q, and make uninstall prints\n%s", line, out)
				}
			}
		})
	}
}

// documented is what an administrator runs before and after `make uninstall`, according to
// docs/install/systemd.md.
func documented(t *testing.T) (before, after []string) {
	t.Helper()
	data := must1(os.ReadFile("../docs/install/systemd.md"))(t)
	head, tail, found := strings.Cut(string(data), "\nmake uninstall\n")
	if !found {
		t.Fatal("docs/install/systemd.md does not run make uninstall")
	}
	head = head[strings.LastIndex(head, "```sh\n")+len("```sh\n"):]
	tail, _, _ = strings.Cut(tail, "```")
	lines := func(text string) []string { return strings.Split(strings.Trim(text, "\n"), "\n") }
	return lines(head), lines(tail)
}
