// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/build/image"
	"github.com/http01-proxyd/http01-proxyd/test/support/cluster"
	"github.com/http01-proxyd/http01-proxyd/test/support/host"
)

const (
	service   = "http01-proxyd.service"
	companion = "http01-proxyd-table.service"
	installer = "http01-proxyd-install.service"
	timer     = "http01-proxyd-install.timer"
	// catalogUnit installs the journal catalog on hosts without the installer.
	catalogUnit = "http01-proxyd-catalog.service"
	binary      = "/usr/local/bin/http01-proxyd"
	unitPattern = "http01-proxyd*" // the pattern of the service's units
	renderer    = "oc-http01"

	// unitStarted is the ID of systemd's message that a unit started
	// (SD_MESSAGE_UNIT_STARTED in sd-messages.h).
	unitStarted = "39f53479d3a045ac8e11786248231fbf"
)

// Releases with images.
const (
	first  = "first"
	second = "second"
	third  = "third"
)

func releases() []string { return []string{first, second, third} }

// testbed is a cluster with images in its registry.
type testbed struct {
	*cluster.Cluster

	images    map[string]string // image references by digest, by release
	sums      map[string]string // SHA-256 of the binary for this machine, by release
	checksums map[string]string // SHA256SUMS, by release

	ran map[string]bool // executed blocks of the documents by title
}

func newTestbed(ctx context.Context, cell *host.Cell) (*testbed, error) {
	c, err := cluster.New(ctx, cell)
	if err != nil {
		return nil, err
	}
	s := &testbed{
		Cluster: c,
		images:  map[string]string{}, sums: map[string]string{}, checksums: map[string]string{},
		ran: map[string]bool{},
	}
	for _, release := range releases() {
		path := filepath.Join(os.Getenv(binariesVariable), release)
		if err := s.push(ctx, release, path); err != nil {
			return nil, errors.Join(err, c.Close(ctx))
		}
	}
	return s, nil
}

func (s *testbed) close(ctx context.Context) error { return s.Close(ctx) }

// push pushes an image of a program into the registry. For other architectures it contains
// files that cannot run here, so that podman must select the right one.
func (s *testbed) push(ctx context.Context, name, path string) error {
	dir, err := os.MkdirTemp("", "http01-delivery-image-")
	if err != nil {
		return fmt.Errorf("create a directory for other architectures: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binaries := make(map[string]string)
	var checksums strings.Builder
	for _, arch := range image.Architectures() {
		binaries[arch] = filepath.Join(dir, arch)
		content := []byte("the program of the " + name + " release for " + arch + "\n")
		if arch == runtime.GOARCH {
			binaries[arch] = path
			if content, err = os.ReadFile(path); err != nil {
				return fmt.Errorf("read the program for the image: %w", err)
			}
		} else if err := os.WriteFile(binaries[arch], content, 0o600); err != nil {
			return fmt.Errorf("write the file for %s: %w", arch, err)
		}
		sum := sha256.Sum256(content)
		fmt.Fprintf(&checksums, "%x  http01-proxyd-linux-%s\n", sum, arch)
		if arch == runtime.GOARCH {
			s.sums[name] = hex.EncodeToString(sum[:])
		}
	}
	s.checksums[name] = checksums.String()
	index, err := image.Build(image.Options{Binaries: binaries, Version: name})
	if err != nil {
		return fmt.Errorf("build the image %s: %w", name, err)
	}
	if s.images[name], err = s.Registry.Push(ctx, "http01-proxyd/http01-proxyd", index); err != nil {
		return fmt.Errorf("push the image %s: %w", name, err)
	}
	return nil
}

// useCluster returns the cluster, and logs a diagnosis when the test fails.
func useCluster(t *testing.T) *testbed {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: hosts that boot")
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(shared.Diagnosis(context.Background()))
		}
	})
	must(t, shared.AwaitVIPs(t.Context()))
	return shared
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must1 returns the value of a call and ends the test on its error.
func must1[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return value
	}
}

// each runs act for all control-plane hosts concurrently.
func (s *testbed) each(t *testing.T, act func(ctx context.Context, i int, m *host.Host) error) {
	t.Helper()
	must(t, s.Each(t.Context(), act))
}

func (s *testbed) snapshots(t *testing.T) []host.Snapshot {
	t.Helper()
	all := make([]host.Snapshot, len(s.ControlPlane))
	s.each(t, func(ctx context.Context, i int, m *host.Host) (err error) {
		all[i], err = snapshot(ctx, m)
		return err
	})
	return all
}

// snapshot returns a snapshot of a host without the removal unit.
func snapshot(ctx context.Context, m *host.Host) (host.Snapshot, error) {
	s, err := m.Snapshot(ctx, unitPattern)
	return withoutRemover(s), err
}

// withoutRemover removes the removal unit from a snapshot. It stays on the tmpfs until the
// next boot.
func withoutRemover(s host.Snapshot) host.Snapshot {
	outputs := make(map[string]string, len(s.Outputs))
	for command, out := range s.Outputs {
		var kept strings.Builder
		for line := range strings.Lines(out) {
			if !strings.HasPrefix(line, installer+" ") {
				kept.WriteString(line)
			}
		}
		outputs[command] = kept.String()
	}
	s.Outputs = outputs
	return s
}

// countStarts returns how often the service has started on a host since its boot.
func countStarts(ctx context.Context, m *host.Host) (int, error) {
	if _, err := m.Run(ctx, "journalctl", "--sync"); err != nil {
		return 0, err
	}
	out, err := m.Run(ctx, "sh", "-c", "journalctl --quiet --boot --output=cat MESSAGE_ID="+unitStarted+" UNIT="+service+
		" | wc -l")
	if err != nil {
		return 0, err
	}
	var count int
	_, err = fmt.Sscan(out, &count)
	return count, err
}

// runningChecksum returns the checksum of the running service's program.
func runningChecksum(ctx context.Context, m *host.Host) (string, error) {
	out, err := m.Run(ctx, "sh", "-c", `sha256sum "/proc/$(systemctl show --property=MainPID --value `+service+`)/exe"`)
	sum, _, _ := strings.Cut(out, " ")
	return sum, err
}

// checkRelease returns an error unless a host runs a release.
func (s *testbed) checkRelease(ctx context.Context, m *host.Host, release string) error {
	sum, err := runningChecksum(ctx, m)
	if err != nil {
		return err
	}
	if sum != s.sums[release] {
		return fmt.Errorf("%s runs %s, not the %s release (%s)", m, sum, release, s.sums[release])
	}
	return nil
}

// expectJournalCatalog expects that `journalctl -x` on a host explains an entry of a
// challenge.
func (s *testbed) expectJournalCatalog(t *testing.T, m *host.Host) {
	t.Helper()
	text := must1(m.Run(t.Context(), "journalctl", "--no-pager", "-x", "--unit="+service, "EVENT=challenge-started"))(t)
	if !regexp.MustCompile(`Subject: A challenge for [a-z0-9.-]+ has started\n`).MatchString(text) {
		t.Errorf("journalctl -x on %s does not explain a challenge:\n%s", m, text)
	}
}

// status returns the output of `systemctl status`, whatever its exit status.
func status(ctx context.Context, m *host.Host, unit string) string {
	out, _ := m.Run(ctx, "systemctl", "status", "--full", "--no-pager", unit)
	return out
}
