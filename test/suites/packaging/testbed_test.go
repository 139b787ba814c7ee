// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// Names and paths. RFC 5737 reserves the network.
const (
	service   = "http01-proxyd.service"
	companion = "http01-proxyd-table.service"
	binary    = "/usr/bin/http01-proxyd"
	config    = "/etc/http01-proxyd/config.yaml"
	bridge    = "br0"
	source    = "/root/source" // the parts of the repository for building packages
	dist      = "/root/dist"   // packages outside source
	epoch     = "1790000000"
)

// testbed is a host with rpm, rpmbuild and podman.
type testbed struct {
	cell *host.Cell
	edge *host.Host
}

func newTestbed(ctx context.Context, c *host.Cell, tree, binaries string) (*testbed, error) {
	if err := c.AddBridge(ctx, bridge); err != nil {
		return nil, err
	}
	edge, err := newHost(c, "edge", tree)
	if err != nil {
		return nil, err
	}
	s := &testbed{c, edge}
	for _, release := range append(releases(), adminTool) {
		err = errors.Join(err, edge.Install(filepath.Join(binaries, release), path.Join("/root", release), 0o755))
	}
	if err = errors.Join(err, s.copySource(ctx)); err == nil {
		err = edge.Boot(ctx)
	}
	if err == nil {
		err = s.registerDebianPackages(ctx)
	}
	if err == nil {
		_, err = s.build(ctx, "rpm", first)
	}
	if err == nil {
		err = s.runDocumented(ctx, rpmGuide, 0, "BINARY=/root/"+second, "SOURCE_DATE_EPOCH="+epoch)
	}
	if err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	return s, nil
}

func newHost(c *host.Cell, name, tree string) (*host.Host, error) {
	return c.NewHost(host.Options{
		Name: name, Tree: tree, Bridge: bridge,
		Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.11/24")},
	})
}

func (s *testbed) close(ctx context.Context) error {
	var err error
	if s.edge.On() {
		err = s.edge.PowerOff(ctx)
	}
	return errors.Join(err, s.edge.Close(ctx))
}

// copySource copies the files that `make rpm` reads onto the host. The host has no Go, so
// the output of `make share` is among them.
func (s *testbed) copySource(ctx context.Context) error {
	root := host.Repository()
	generated, err := os.MkdirTemp("", "http01-share-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(generated)
	share := exec.CommandContext(ctx, "make", "-C", root, "-f", "build/release.mk", "share", "SHARE="+
		filepath.Join(generated, "bin/share"))
	share.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+epoch)
	if out, err := share.CombinedOutput(); err != nil {
		return fmt.Errorf("make share: %w: %s", err, out)
	}
	for part, root := range map[string]string{
		"LICENSE": root, "Makefile": root, "build/release.mk": root, "systemd": root,
		"packaging": root, "build/must-gather": root, "bin/share": generated,
	} {
		err := filepath.WalkDir(filepath.Join(root, part), func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(root, file)
			if err != nil {
				return err
			}
			return s.edge.Install(file, path.Join(source, relative), info.Mode().Perm())
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// debianSpec is a package without files that provides what Debian's packages on the host
// provide: rpm does not know packages of dpkg.
const debianSpec = `Name: debian
Version: 12
Release: 1
Summary: What dpkg has installed
License: CC0-1.0
BuildArch: noarch
Provides: /bin/sh
Provides: systemd = %{systemd}
%description
%{summary}.
%files
`

// registerDebianPackages installs debianSpec, and creates the folder that RHEL has from its
// package "filesystem".
func (s *testbed) registerDebianPackages(ctx context.Context) error {
	if err := s.edge.WriteFile("/root/debian.spec", debianSpec, 0o644); err != nil {
		return err
	}
	_, err := s.edge.Run(ctx, "sh", "-ec", `cd /root
version=$(systemctl --version | awk 'NR == 1 {print $2}')
rpmbuild -bb --quiet --define "systemd $version" --define '_topdir /root/debian' debian.spec
rpm --upgrade debian/RPMS/noarch/*.rpm
mkdir /usr/share/licenses
journalctl --update-catalog`)
	return err
}

// build builds the package of a release in a format, "rpm" or "deb", into dist and returns its path.
func (s *testbed) build(ctx context.Context, format, release string) (string, error) {
	out, err := s.edge.Run(ctx, "env", "SOURCE_DATE_EPOCH="+epoch, "make", "--no-print-directory", "-C", source, "-f",
		"build/release.mk",
		format, "BINARY=/root/"+release, "VERSION="+release, "DIST="+dist, "ARCHITECTURE="+architecture)
	return strings.TrimSpace(out), err
}

// useTestbed returns the host, and logs a diagnosis when the test fails.
func useTestbed(t *testing.T) *testbed {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: a host that boots")
	}
	t.Cleanup(func() {
		if t.Failed() && shared.edge.On() {
			t.Log(shared.edge.Diagnosis(context.Background()))
		}
	})
	return shared
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// runOnHost runs a command on a host and returns its trimmed output.
func runOnHost(t *testing.T, h *host.Host, name string, args ...string) string {
	t.Helper()
	out, err := h.Run(t.Context(), name, args...)
	must(t, err)
	return strings.TrimSpace(out)
}

// eventually calls try until it returns nil.
func eventually(t *testing.T, what string, attempt func() error) {
	t.Helper()
	must(t, lab.Eventually(t.Context(), what, func(context.Context) error { return attempt() }))
}

// expectProperties expects these values of a unit's properties.
func expectProperties(t *testing.T, h *host.Host, unit string, want map[string]string) {
	t.Helper()
	for property, value := range want {
		got, err := h.Properties(t.Context(), unit, property)
		must(t, err)
		if got[property] != value {
			t.Errorf("%s of %s is %q, want %q", property, unit, got[property], value)
		}
	}
}

// problemCount is what a status text has after a state that is ready: the host may have a problem too.
var problemCount = regexp.MustCompile(`^(\w+), with [^:]*:`)

// awaitStatus waits for a prefix of the unit's status text.
func awaitStatus(t *testing.T, h *host.Host, begins string) {
	t.Helper()
	eventually(t, "the status "+begins, func() error {
		got, err := h.Properties(t.Context(), service, "StatusText", "ActiveState")
		if err == nil && (got["ActiveState"] != "active" || !strings.HasPrefix(problemCount.ReplaceAllString(got["StatusText"], "$1:"), begins)) {
			err = fmt.Errorf("it is %v", got)
		}
		return err
	})
}

// checksums returns the checksums of the binaries by release.
func checksums(t *testing.T, h *host.Host) map[string]string {
	t.Helper()
	sums := map[string]string{}
	for _, release := range releases() {
		sums[release] = runOnHost(t, h, "sh", "-c", "sha256sum </root/"+release)
	}
	return sums
}

// expectBinary expects that the service runs the binary of a release from the package's
// path.
func expectBinary(t *testing.T, h *host.Host, sum string) {
	t.Helper()
	got := runOnHost(t, h, "sh", "-c", `exe=/proc/$(systemctl show --property=MainPID --value `+service+
		`)/exe; readlink "$exe"; sha256sum <"$exe"`)
	if want := binary + "\n" + sum; got != want {
		t.Errorf("the service runs %q, want %q", got, want)
	}
}
