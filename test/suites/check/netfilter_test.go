// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// withoutNetfilter makes the test binary run another program as if the kernel had no
// netfilter netlink. A simulation is necessary: the kernels that tests run on have nftables
// compiled in.
const withoutNetfilter = "HTTP01_CHECK_WITHOUT_NETFILTER"

// runWithoutNetfilter makes socket(2) return the error of af_netlink.c (netlink_create)
// without CONFIG_NETFILTER_NETLINK, and executes the program.
func runWithoutNetfilter(args []string) error {
	const (
		number   = 0           // of the system call, in struct seccomp_data
		protocol = 16 + 2*8    // its third argument
		failure  = 0x0005_0000 // SECCOMP_RET_ERRNO
		allow    = 0x7fff_0000 // SECCOMP_RET_ALLOW
		install  = 1           // SECCOMP_SET_MODE_FILTER
	)
	low := uint32(protocol)
	if _, big := map[string]bool{"s390x": true}[runtime.GOARCH]; big {
		low += 4
	}
	program, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: number, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_SOCKET, SkipTrue: 3},
		bpf.LoadAbsolute{Off: low, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.NETLINK_NETFILTER, SkipTrue: 1},
		bpf.RetConstant{Val: failure | uint32(unix.EPROTONOSUPPORT)},
		bpf.RetConstant{Val: allow},
	})
	if err != nil {
		return err
	}
	filters := make([]unix.SockFilter, len(program))
	for i, p := range program {
		filters[i] = unix.SockFilter{Code: p.Op, Jt: p.Jt, Jf: p.Jf, K: p.K}
	}
	fprog := unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, install, 0, uintptr(unsafe.Pointer(&fprog))); errno != 0 {
		return fmt.Errorf("install the filter: %w", errno)
	}
	return unix.Exec(args[0], args, os.Environ())
}

// TestNftablesMissing runs the service and check without netfilter netlink.
func TestNftablesMissing(t *testing.T) {
	c := healthy(t, nil)
	self, err := os.Executable()
	must(t, err)
	wrap := []string{"env", withoutNetfilter + "=1", self}
	c.restartService(lab.ServiceOptions{Wrap: wrap}, "NftablesUnavailable")
	args := slices.Concat(wrap[1:], []string{shared.binary, "check", "-o", "json"}, c.holder().CheckFlags())
	out, err := c.holder().Run(t.Context(), wrap[0], args...)
	if code := exitCode(err); code != 3 {
		t.Fatalf("check: %v", err)
	}
	r, parsed := lab.ParseCheck(out)
	must(t, parsed)
	c.expectReport(r, exitCode(err), []string{"nftables-unsupported"})
	c.expectText(r, "nftables-unsupported", "the kernel requires CONFIG_NETFILTER_NETLINK (modprobe nfnetlink)")
}

// TestNftablesDenied runs the service without its capability.
func TestNftablesDenied(t *testing.T) {
	c := healthy(t, nil)
	c.restartService(lab.ServiceOptions{Wrap: []string{"setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin"}},
		"NftablesUnavailable")
	r := c.expectFindings(c.holder(), []string{"nftables-rejected"})
	c.expectText(r, "nftables-rejected", "this process lacks CAP_NET_ADMIN")
}

// TestNftablesRefused runs a second service on a host where the first one owns the table.
func TestNftablesRefused(t *testing.T) {
	c := healthy(t, nil)
	n := c.holder()
	dir := t.TempDir()
	config := dir + "/config.yaml"
	must(t, os.WriteFile(config,
		[]byte(n.DefaultConfig()+"mode: CustomDeployment\ncustomDeployment: {internalPort: 9888}\n"), 0o600))
	socket := dir + "/status.sock"
	flags := []string{"--config", config, "--state-dir", dir + "/state", "--status-socket", socket}
	second, err := n.Start(lab.Command{Name: "second", Path: shared.binary, Args: append([]string{"run"}, flags...)})
	must(t, err)
	t.Cleanup(func() { must(t, second.Stop(context.Background())) })
	must(t, eventually(t, func() error {
		out, err := n.Run(t.Context(), shared.binary, "status", "--status-socket", socket)
		if err == nil && !strings.Contains(out, "NftablesUnavailable") {
			err = errors.New(out)
		}
		return err
	}))
	r := c.expectFindings(n, []string{"nftables-rejected"}, flags...)
	c.expectText(r, "nftables-rejected", "the table belongs to process", "(http01-proxyd)")
}

// TestOtherRedirect loads the table of cert-manager-operator's HTTP01Proxy (pull request 459,
// pkg/controller/http01proxy/machineconfig.go) beside the service's, which handles the requests.
func TestOtherRedirect(t *testing.T) {
	c := healthy(t, nil)
	n := c.holder()
	const table = "inet crtmgr_http01_dnat"
	_, err := n.Input(t.Context(), fmt.Sprintf(`table %s {
	chain prerouting {
		type nat hook prerouting priority 0;
		ip daddr %s tcp dport 80 dnat ip to %[3]s:80
	}
	chain postrouting {
		type nat hook postrouting priority 100;
		ip daddr %[3]s tcp dport 80 masquerade
	}
}
`, table, c.API.V4, c.Ingress.V4), "nft", "-f", "-")
	must(t, err)
	c.expectPackets(true, true)
	r := c.expectFindings(n, []string{"dnat-table-present"})
	c.expectText(r, "dnat-table-present", "The table "+table+" of cert-manager-operator's HTTP01Proxy", "migration.md")
	if got, want := r.Commands("dnat-table-present"), "systemctl stop crtmgr-http01-dnat"; !slices.Contains(got, want) {
		t.Errorf("commands %q, want %s", got, want)
	}
	// ExecStop of that unit:
	_, err = n.Run(t.Context(), "nft", "add table "+table+"; delete table "+table)
	must(t, err)
	c.expectHealthy(n)
}
