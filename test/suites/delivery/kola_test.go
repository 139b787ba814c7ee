// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/validator"
)

const (
	kolaGuide = "test/kola/README.md"
	// Where kola puts the data of a test, and the script that replaces its own here.
	kolaFolder = "/var/opt/kola"
	kolaReboot = "#!/bin/sh\n# kola stops the test with SIGTERM and reboots the machine.\necho \"$1\" >" + kolaFolder + "/mark\nkill -TERM \"$PPID\"\n"
)

// translate runs Butane's program, at the version of the product's module. Warnings are
// errors.
func translate(t *testing.T, source string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "run", "github.com/coreos/butane/internal", "--strict", source)
	cmd.Dir = host.Repository()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	config, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", source, err, stderr.String())
	}
	must(t, validator.Ignition(config))
	return config
}

// TestKola runs the test of test/kola with its reboots, without a virtual machine.
func TestKola(t *testing.T) {
	w := newInstallMethod(t, useCluster(t), coreOSGuide, nil)
	source := filepath.Join(host.Repository(), "test", "kola", "reboot")
	config := translate(t, filepath.Join(source, "config.bu"))
	must(t, os.Symlink(filepath.Join(host.Repository(), "butane"), filepath.Join(w.dir, "butane")))
	commands := openDocument(t, kolaGuide, byHandMark).block(t, "Tests for kola", 0, 2)
	must1(w.run(t.Context(), regexp.MustCompile(`(?m)^\$ `).ReplaceAllString(commands, ""), "MAKE_ARGUMENTS=BIN="+w.bin+" BINARY="+w.bin+"/http01-proxyd"))(t)

	must(t, w.PowerOff(t.Context()))
	w.applyIgnition(config, "kola-vips.service", "kola-router.socket")
	must(t, os.CopyFS(filepath.Join(w.Root, kolaFolder, "data"), os.DirFS(filepath.Join(w.dir, "test", "kola", "reboot", "data"))))
	must(t, w.Install(filepath.Join(source, "test.sh"), kolaFolder+"/test.sh", 0o755))
	must(t, w.Boot(t.Context()))

	var marks []string
	for mark := ""; ; {
		must1(w.Input(t.Context(), kolaReboot, "sh", "-c", "cat >/tmp/autopkgtest-reboot && chmod +x /tmp/autopkgtest-reboot && echo '"+mark+"' >"+kolaFolder+"/mark"))(t)
		out, err := w.Run(t.Context(), "env", "KOLA_EXT_DATA="+kolaFolder+"/data", "AUTOPKGTEST_REBOOT_MARK="+mark, kolaFolder+"/test.sh")
		next := strings.TrimSpace(must1(w.ReadFile(kolaFolder + "/mark"))(t))
		if next == mark {
			if err != nil {
				t.Fatalf("after %q: %v\n%s", mark, err, out)
			}
			break
		}
		marks, mark = append(marks, next), next
		must(t, w.Reboot(t.Context()))
	}
	if diff := cmp.Diff([]string{"installed", "killed"}, marks); diff != "" {
		t.Errorf("reboots (-want +got):\n%s", diff)
	}

	// kola deletes the machine; this host is cleaned up instead.
	w.runOnHost("systemctl", "disable", "--now", "kola-router.socket", "kola-vips.service")
	w.runOnHost("systemctl", "clean", "--what=state", service)
	for _, name := range []string{
		binary, "/etc/http01-proxyd", "/etc/kola-router", kolaFolder, fromIgnition, "/usr/local/lib/systemd",
		"/etc/systemd/system/" + service, "/etc/systemd/system/" + companion,
		"/etc/systemd/system/kola-vips.service", "/etc/systemd/system/kola-router.socket", "/etc/systemd/system/kola-router@.service",
		"/var/lib/http01-proxyd", "/var/lib/private/http01-proxyd",
	} {
		must(t, w.RemoveFile(name))
	}
	w.runOnHost("rm", "/tmp/autopkgtest-reboot")
	w.runOnHost("systemctl", "daemon-reload")
	w.runOnHost("journalctl", "--update-catalog")
	w.expectUnchanged()
}
