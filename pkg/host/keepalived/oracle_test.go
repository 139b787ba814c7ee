// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"bufio"
	"context"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

// corpusID is the config ID for the corpus.
const corpusID = "node1"

// corpus lists the configurations that keepalived itself accepts.
func corpus(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.conf")
	must(t, err)
	return append(paths, "testdata/includes/main.conf")
}

// TestAgainstKeepalived loads each file of the corpus into the real keepalived and compares
// the loaded configuration with the result of this package.
func TestAgainstKeepalived(t *testing.T) {
	nstest.Require(t)
	nstest.Run(t, "ip", "link", "add", "br-ex", "type", "veth", "peer", "name", "peer0")
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", "br-ex").Run() })
	for _, dev := range []string{"br-ex", "peer0"} {
		nstest.Run(t, "ip", "link", "set", dev, "up")
	}
	for _, path := range corpus(t) {
		t.Run(path, func(t *testing.T) {
			// Each keepalived takes a second to stop. In parallel they share only the link,
			// and nothing is asserted about it.
			t.Parallel()
			found, err := readWithConfigID(path, corpusID)
			must(t, err)
			if diff := cmp.Diff(loadedByKeepalived(t, path), sortedAddrsByName(found.Instances)); diff != "" {
				t.Errorf("instances (-keepalived +here):\n%s", diff)
			}
		})
	}
}

func sortedAddrsByName(instances []Instance) map[string][]string {
	out := make(map[string][]string)
	for _, in := range instances {
		addrs := slices.Clone(in.Addrs)
		out[in.Name] = sortedStrings(addrs)
	}
	return out
}

func sortedStrings(addrs []netip.Addr) []string {
	// keepalived up to 2.2 keeps duplicate addresses. It also reads an include twice if it is
	// not on a line of its own, because its copy of the configuration contains both the
	// include and the included text.
	slices.SortFunc(addrs, netip.Addr.Compare)
	out := []string{}
	for _, a := range slices.Compact(addrs) {
		out = append(out, a.String())
	}
	return out
}

// loadedByKeepalived runs keepalived in the foreground until it has dumped its configuration
// (-d), and returns the addresses of each instance.
func loadedByKeepalived(t *testing.T, path string) map[string][]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	pid := func(name string) string { return filepath.Join(dir, name) }
	out, in, err := os.Pipe()
	must(t, err)
	defer out.Close()
	cmd := exec.CommandContext(ctx, "keepalived", "--dont-fork", "--no-syslog", "--log-console", "--log-detail", "--dump-conf", "--vrrp",
		"--config-id", corpusID, "--use-file", path,
		"--pid", pid("keepalived"), "--vrrp_pid", pid("vrrp"), "--checkers_pid", pid("checkers"), "--bfd_pid", pid("bfd"))
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stdout, cmd.Stderr = in, in
	err = cmd.Start()
	in.Close()
	must(t, err)
	dump, complete := readDump(out)
	cancel()
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait()
	if !complete {
		t.Fatalf("keepalived ended before it had dumped its configuration:\n%s", strings.Join(dump, "\n"))
	}
	return parseDump(t, dump)
}

// readDump reads the log up to the end of the instances.
func readDump(r io.Reader) (lines []string, complete bool) {
	stamp := regexp.MustCompile(`^\w{3} \w{3} [ \d]\d [\d:]{8} \d{4}: `)
	for sc := bufio.NewScanner(r); sc.Scan(); {
		line := stamp.ReplaceAllString(sc.Text(), "")
		if line == "------< Interfaces >------" {
			return lines, true
		}
		lines = append(lines, line)
	}
	return lines, false
}

func parseDump(t *testing.T, dump []string) map[string][]string {
	t.Helper()
	found := make(map[string][]netip.Addr)
	name, inAddrs := "", false
	for _, line := range dump {
		if after, ok := strings.CutPrefix(line, " VRRP Instance = "); ok {
			name, inAddrs = after, false
			found[name] = nil
			continue
		}
		text := strings.TrimLeft(line, " ")
		switch indent := len(line) - len(text); {
		case indent == 3:
			inAddrs = strings.HasPrefix(text, "Virtual IP (") || strings.HasPrefix(text, "Virtual IP Excluded")
		case indent == 5 && inAddrs:
			addr, _, _ := strings.Cut(strings.Fields(text)[0], "/")
			a, err := netip.ParseAddr(addr)
			if err != nil {
				t.Fatalf("dump of %s: %q: %v", name, line, err)
			}
			found[name] = append(found[name], a)
		case indent == 1:
			inAddrs = false
			// Unindented lines are messages of the parent process, which can appear in
			// between.
		}
	}
	out := make(map[string][]string)
	for name, addrs := range found {
		out[name] = sortedStrings(addrs)
	}
	return out
}
