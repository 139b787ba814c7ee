// SPDX-License-Identifier: Apache-2.0

package machineconfig_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
)

// headerCommand matches a command in the header of a MachineConfig.
var headerCommand = regexp.MustCompile(`(?m)^#   ((?:awk|grep) .*)$`)

// TestHeaderVerifies runs the commands of the header: the list of files is correct, and shows a
// changed file on a node and a changed source in the object.
func TestHeaderVerifies(t *testing.T) {
	t.Parallel()
	dir, node := t.TempDir(), t.TempDir()
	// oc passes its input to sha256sum on the node, which it does for a command with --tty=false only.
	oc := "#!/bin/sh\n[ \"$1 $2 $3 $4 $5\" = 'debug -q --tty=false node/NODE --' ] && cd " + node + " && sed 's|  /|  |' | sha256sum --check\n"
	must(t, os.WriteFile(filepath.Join(dir, "oc"), []byte(oc), 0o700))
	run := func(command string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", command)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, o := range render(t, machineconfig.Request{Image: image, Pool: "master"}) {
		file := filepath.Join(dir, o.File)
		must(t, os.WriteFile(file, o.Text, 0o600))
		var list, sums, ok strings.Builder
		for path, text := range onHost(t, read(t, o).Ignition) {
			path, _, _ = strings.Cut(path, " ")
			if !strings.HasPrefix(path, "/") {
				path = "/etc/systemd/system/" + path
			}
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(node, path)), 0o700))
			must(t, os.WriteFile(filepath.Join(node, path), []byte(text), 0o600))
		}
		for i, f := range o.Files {
			sum := fmt.Sprintf("%x", sha256.Sum256(f.Text))
			fmt.Fprintf(&list, "#   %04o %6d %s %s\n", f.Mode, len(f.Text), sum, f.Path)
			fmt.Fprintf(&ok, "%s: OK\n", strings.TrimPrefix(f.Path, "/"))
			if i < len(read(t, o).Ignition.Storage.Files) {
				sums.WriteString(sum + "  -\n")
			}
		}
		if !bytes.Contains(o.Text, []byte(list.String())) {
			t.Errorf("%s does not list\n%s", o.File, list.String())
		}
		commands := headerCommand.FindAllStringSubmatch(string(o.Text), -1)
		if len(commands) != 2 {
			t.Fatalf("%s has the commands %q", o.File, commands)
		}
		for i, want := range []string{ok.String(), sums.String()} {
			got, err := run(commands[i][1])
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%s: %v (-want +got):\n%s", commands[i][1], err, diff)
			}
		}
		must(t, os.WriteFile(filepath.Join(node, o.Files[0].Path), []byte("changed"), 0o600))
		if got, err := run(commands[0][1]); err == nil {
			t.Errorf("a changed file of a node is not found:\n%s", got)
		}
		must(t, os.WriteFile(file, bytes.Replace(o.Text, []byte("SPDX-License-Identifier:%20"), []byte("X:%20"), 1), 0o600))
		if got, _ := run(commands[1][1]); got == sums.String() {
			t.Error("a changed source is not found")
		}
	}
}

// TestPlainText: each line of a file is a line of the object, which a search finds. Files of more
// than 64 KiB are compressed.
func TestPlainText(t *testing.T) {
	t.Parallel()
	plain := render(t, machineconfig.Request{Image: image, Pool: "master", Site: machineconfig.Site{
		Config: &machineconfig.Input{Name: "my.yaml", Text: []byte("# 100%, ä (a?) 'b'\n\nmode: \"\"\n")},
	}})
	const want = "          source: \"data:,\\\n            %23%20100%25,%20%C3%A4%20(a%3F)%20'b'%0A\\\n" +
		"            %0A\\\n            mode:%20%22%22%0A\\\n            \"\n"
	if !strings.Contains(string(plain[1].Text), want) {
		t.Errorf("no\n%s in\n%s", want, plain[1].Text)
	}
	if bytes.Contains(plain[0].Text, []byte("gzip")) ||
		!bytes.Contains(plain[0].Text, []byte("%0A\\\n            set%20-euo%20pipefail%0A\\\n")) {
		t.Errorf("the installer cannot be read in\n%s", plain[0].Text)
	}
	large := render(t, machineconfig.Request{Image: image, Pool: "master", Site: machineconfig.Site{
		Config: &machineconfig.Input{Name: "my.yaml", Text: []byte("mode: \"\"\n" + strings.Repeat("# text\n", 10<<10))},
	}})
	for i, compressed := range []bool{false, true} {
		if got := bytes.Contains(large[i].Text, []byte("compression: gzip")); got != compressed {
			t.Errorf("%s is compressed: %t", large[i].File, got)
		}
		if got := len(headerCommand.FindAll(large[i].Text, -1)) == 1; got != compressed {
			t.Errorf("the header of %s does not fit:\n%.3000s", large[i].File, large[i].Text)
		}
	}
	if len(large[1].Files[0].Text) <= 64<<10 {
		t.Errorf("%d bytes in a file of more than 64 KiB", len(large[1].Files[0].Text))
	}
}

// TestUnitsNameNoManPage: neither the MachineConfig nor the image of a host installs man pages.
func TestUnitsNameNoManPage(t *testing.T) {
	t.Parallel()
	for _, r := range []machineconfig.Request{{Image: image, Pool: "master"}, {Layered: true, Pool: "master"}} {
		for _, f := range render(t, r)[0].Files {
			if regexp.MustCompile(`(?m)^Documentation=.*man:`).Match(f.Text) {
				t.Errorf("%s names a man page", f.Path)
			}
		}
	}
}
