// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nftables

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nltest"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
)

// TestWithoutCapability: the child lacks the capability, and the kernel rejects its requests.
func TestWithoutCapability(t *testing.T) {
	nstest.Require(t)
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), "setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin", self)
	cmd.Env = append(os.Environ(), childMode+"=no-capability")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 5 {
		t.Fatalf("got %d lines, want one for each of 5 calls:\n%s", len(lines), out)
	}
	for _, line := range lines {
		if !strings.Contains(line, "this process lacks CAP_NET_ADMIN: ") {
			t.Errorf("%s: want the remediation", line)
		}
	}
}

// fakeKernel replaces a kernel that lacks a feature. The kernels of the test hosts have all
// features built in. It answers as net/netfilter does: an accepted batch gets no reply, and a
// rejected batch gets an error for each rejected message.
type fakeKernel struct {
	refuse func(netlink.Message) unix.Errno
}

func (k fakeKernel) respond(requests []netlink.Message) ([]netlink.Message, error) {
	for _, m := range requests {
		if errno := k.refuse(m); errno != 0 {
			return nltest.Error(int(errno), []netlink.Message{m})
		}
		if messageType(m) == unix.NFT_MSG_GETTABLE {
			return nltest.Error(int(unix.ENOENT), []netlink.Message{m})
		}
	}
	return nil, io.EOF
}

// messageType returns the NFT_MSG_… type of a message, or -1 for another kind of message.
func messageType(m netlink.Message) int {
	if m.Header.Type>>8 != unix.NFNL_SUBSYS_NFTABLES {
		return -1
	}
	return int(m.Header.Type & 0xff)
}

func (k fakeKernel) dial() (*socket, error) {
	nft, err := nftables.New(nftables.AsLasting(), nftables.WithTestDial(k.respond))
	if err != nil {
		return nil, err
	}
	return &socket{nft: nft, port: nltest.PID, close: func() error { return nil }}, nil
}

// kernelRefusing rejects messages of a type for which is returns true.
func kernelRefusing(kind int, errno unix.Errno, is func(netlink.Message) bool) fakeKernel {
	return fakeKernel{func(m netlink.Message) unix.Errno {
		if messageType(m) == kind && is(m) {
			return errno
		}
		return 0
	}}
}

func anyMessage(netlink.Message) bool { return true }

func TestKernelLacksFeature(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		kernel fakeKernel
	}{
		{
			// nfnetlink_rcv_msg: EINVAL; nfnetlink_rcv_batch: EOPNOTSUPP.
			"nf_tables",
			fakeKernel{func(m netlink.Message) unix.Errno {
				if messageType(m) == unix.NFT_MSG_GETTABLE {
					return unix.EINVAL
				}
				return unix.EOPNOTSUPP
			}},
		},
		{
			// nf_tables_newtable up to 5.11: EINVAL for flags other than dormant.
			"owner flag",
			kernelRefusing(unix.NFT_MSG_NEWTABLE, unix.EINVAL, func(m netlink.Message) bool { return tableFlags(m) != 0 }),
		},
		{"module", kernelRefusing(unix.NFT_MSG_NEWRULE, unix.ENOENT, func(m netlink.Message) bool {
			return bytes.Contains(m.Data, []byte("fib\x00"))
		})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := open(tt.kernel.dial)
			must(t, err)
			for action, err := range map[string]error{
				"Apply": c.Apply(ruleset.New(8888, parseAddrs("192.0.2.5"))), "checkSupport": c.checkSupport(),
			} {
				if !errors.Is(err, ErrUnsupported) || !strings.Contains(fmt.Sprint(err), "Linux 5.12") {
					t.Errorf("%s = %v, want ErrUnsupported", action, err)
				}
			}
		})
	}
}

func tableFlags(m netlink.Message) byte {
	attrs, err := netlink.UnmarshalAttributes(m.Data[4:])
	if err != nil {
		return 0
	}
	for _, a := range attrs {
		if a.Type == unix.NFTA_TABLE_FLAGS {
			return a.Data[3]
		}
	}
	return 0
}

// TestOtherErrorOfTheKernel: an error without relation to missing features is returned
// unchanged.
func TestOtherErrorOfTheKernel(t *testing.T) {
	t.Parallel()
	c, err := open(kernelRefusing(unix.NFT_MSG_NEWTABLE, unix.ENOMEM, anyMessage).dial)
	must(t, err)
	err = c.Apply(ruleset.New(8888, nil))
	if !errors.Is(err, unix.ENOMEM) || errors.Is(err, ErrUnsupported) {
		t.Errorf("Apply = %v, want ENOMEM alone", err)
	}
}

func TestOpenErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		errno unix.Errno
		kind  error
		want  string
	}{
		{unix.EPROTONOSUPPORT, ErrUnsupported, "modprobe nfnetlink"},
		{unix.EAFNOSUPPORT, ErrUnsupported, "RestrictAddressFamilies="},
		{unix.EMFILE, unix.EMFILE, "LimitNOFILE="},
	}
	for _, tt := range tests {
		t.Run(tt.errno.Error(), func(t *testing.T) {
			t.Parallel()
			_, err := open(func() (*socket, error) { return nil, os.NewSyscallError("socket", tt.errno) })
			if !errors.Is(err, tt.kind) || !strings.Contains(fmt.Sprint(err), tt.want) {
				t.Errorf("Open = %v, want %v with %q", err, tt.kind, tt.want)
			}
		})
	}
}

// TestSupport: the kernel of the test host supports the table, and the test leaves nothing.
func TestSupport(t *testing.T) {
	nstest.Require(t)
	before := listTables(t)
	if err := CheckSupport(); err != nil {
		t.Error(err)
	}
	if after := listTables(t); after != before {
		t.Errorf("not removed: %q", after)
	}
}
