// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/validator"
)

const (
	// ignitionProgram is the name with which Ignition's program applies a configuration to
	// a directory (coreos/ignition internal/main.go).
	ignitionProgram = "ignition-apply"
	// fromIgnition is the file in which Ignition lists enabled units.
	fromIgnition = "/etc/systemd/system-preset/20-ignition.preset"
)

// ignitionPath returns the path of the program and its version in go.mod.
func ignitionPath(ctx context.Context) (path, version string, err error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}",
		"github.com/coreos/ignition/v2").Output()
	if err != nil {
		return "", "", fmt.Errorf("find the release of Ignition in go.mod: %w", err)
	}
	version = strings.TrimSpace(string(out))
	return filepath.Join(host.Repository(), ".cache", "tools", ignitionProgram+"-"+version), version, nil
}

// buildIgnition builds Ignition's program when it is missing. The build needs the network
// and the headers of libblkid. Debian's Ignition supports the specification only up to 3.3.
func buildIgnition(ctx context.Context) error {
	path, version, err := ignitionPath(ctx)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), "."+ignitionProgram+"-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cmd := exec.CommandContext(ctx, "go", "install",
		"-ldflags=-s -w -X github.com/coreos/ignition/v2/internal/version.Raw="+version,
		"github.com/coreos/ignition/v2/internal@"+version)
	// With the flags of Vale in the Makefile, both share the compiled standard library.
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOGC=400", "CGO_ENABLED=1", "CGO_CFLAGS=-O0 -w")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build Ignition %s: %w: run test/install-packages all, for the headers of libblkid\n%s", version,
			err, out)
	}
	return os.Rename(filepath.Join(dir, "internal"), path)
}

// applyIgnition has Ignition apply a configuration to the host's disk, as at its first
// boot, and enables its units. The host is off, and no network is used.
func (w *installMethod) applyIgnition(config []byte, units ...string) {
	w.t.Helper()
	path, _, err := ignitionPath(w.t.Context())
	must(w.t, err)
	cmd := exec.CommandContext(w.t.Context(), path, "--root="+w.Root, "--offline", "-")
	cmd.Args[0] = ignitionProgram
	cmd.Env = append(os.Environ(), "container=yes") // without it Ignition refuses to run on a machine in use
	cmd.Stdin = bytes.NewReader(config)
	out, err := cmd.CombinedOutput()
	w.t.Logf("%s", out)
	must(w.t, err)
	// Ignition writes presets, which systemd applies at the first boot of a machine
	// (machine-id(5)). This host has booted before.
	out, err = exec.CommandContext(w.t.Context(), "systemctl", append([]string{"--root=" + w.Root, "preset"},
		units...)...).CombinedOutput()
	w.t.Logf("%s", out)
	must(w.t, err)
}

// parentConfig returns an administrator's configuration that merges another one.
func parentConfig(t *testing.T, config string) []byte {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"ignition": map[string]any{
			"version": "3.4.0",
			"config": map[string]any{"merge": []any{
				map[string]any{"source": "data:;base64," + base64.StdEncoding.EncodeToString([]byte(config))},
			}},
		},
		"storage": map[string]any{"files": []any{
			map[string]any{
				"path": "/etc/motd", "overwrite": true, "mode": 0o644,
				"contents": map[string]any{"source": "data:,hello%0A"},
			},
		}},
	})
	must(t, err)
	return text
}

func TestFedoraCoreOS(t *testing.T) {
	s := useCluster(t)
	w := newInstallMethod(t, s, coreOSGuide, nil)
	motd := must1(w.ReadFile("/etc/motd"))(t)
	w.block("Install on Fedora CoreOS", 0, 1, "MAKE_ARGUMENTS=BIN="+w.bin)
	config := w.read("rendered/http01-proxyd.ign")
	must(t, validator.Ignition([]byte(config)))

	must(t, w.PowerOff(t.Context()))
	w.applyIgnition(parentConfig(t, config), service, catalogUnit)
	must(t, w.Boot(t.Context()))
	must(t, w.AwaitVIPs(t.Context()))
	if got, err := w.ReadFile("/etc/motd"); err != nil || got != "hello\n" {
		t.Errorf("the administrator's own part is missing: %q, %v", got, err)
	}
	w.expectServing(binary, w.builtChecksum(), "fedora-coreos")
	w.expectJournalCatalog(t, w.Host)

	// Such a machine is reinstalled; this host is cleaned up instead.
	w.runOnHost("systemctl", "disable", "--now", service, catalogUnit)
	// systemctl does not wait for the companion, whose stop runs the binary.
	w.runOnHost("timeout", "30", "sh", "-c", `while [ "$(systemctl show --property=ActiveState --value `+companion+
		`)" != inactive ]; do sleep 0.1; done`)
	w.runOnHost("systemctl", "clean", "--what=state", service)
	for _, name := range []string{
		binary, "/etc/http01-proxyd", "/etc/systemd/system/" + service, "/etc/systemd/system/" + companion,
		"/etc/systemd/system/" + catalogUnit, fromIgnition,
		"/usr/local/lib/systemd",
		"/var/lib/http01-proxyd", "/var/lib/private/http01-proxyd",
	} {
		must(t, w.RemoveFile(name))
	}
	must(t, w.WriteFile("/etc/motd", motd, 0o644))
	w.runOnHost("systemctl", "daemon-reload")
	w.runOnHost("journalctl", "--update-catalog")
	w.expectUnchanged()
}
