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
			found, err := Read(path)
			must(t, err)
			here := map[string][]string{"API": sorted(found.VIPs.API), "INGRESS": sorted(found.VIPs.Ingress)}
			if diff := cmp.Diff(loadedByKeepalived(t, path), here); diff != "" {
				t.Errorf("VIPs (-keepalived +here):\n%s", diff)
			}
		})
	}
}

// sorted returns addresses, each once. keepalived up to 2.2 keeps duplicate addresses. It also
// reads an include twice if it is not on a line of its own, because its copy of the
// configuration contains both the include and the included text.
func sorted(addrs []netip.Addr) []string {
	addrs = slices.SortedFunc(slices.Values(addrs), netip.Addr.Compare)
	out := []string{}
	for _, a := range slices.Compact(addrs) {
		out = append(out, a.String())
	}
	return out
}

// loadedByKeepalived runs keepalived in the foreground until it has dumped its configuration
// (-d), and returns the addresses of each role.
func loadedByKeepalived(t *testing.T, path string) map[string][]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	pid := func(name string) string { return filepath.Join(dir, name) }
	out, in, err := os.Pipe()
	must(t, err)
	defer out.Close()
	cmd := exec.CommandContext(ctx, "keepalived", "--dont-fork", "--no-syslog", "--log-console", "--log-detail",
		"--dump-conf", "--vrrp",
		"--use-file", path,
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
	var role string
	inAddrs := false
	for _, line := range dump {
		if name, ok := strings.CutPrefix(line, " VRRP Instance = "); ok {
			role, inAddrs = "", false
			if match := instanceName.FindStringSubmatch(name); match != nil {
				role = match[1]
			}
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
				t.Fatalf("dump: %q: %v", line, err)
			}
			found[role] = append(found[role], a)
		case indent == 1:
			inAddrs = false
			// Unindented lines are messages of the parent process, which can appear in
			// between.
		}
	}
	return map[string][]string{"API": sorted(found["API"]), "INGRESS": sorted(found["INGRESS"])}
}
