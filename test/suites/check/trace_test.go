// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// traceReport is what a test reads of the document of trace.
type traceReport struct {
	Message string
	VIPs    []netip.Addr
	Packets []struct {
		Reply      bool
		Client     netip.AddrPort
		Flags, End string
	}
}

// startTrace starts trace on a node, and waits until its tables exist.
func (c *cluster) startTrace(n *lab.Node, flags ...string) *runningTrace {
	c.t.Helper()
	args := slices.Concat([]string{"--net=/run/netns/" + n.Namespace, shared.binary, "trace", "-o", "json"},
		n.CheckFlags()[:10], flags)
	r := &runningTrace{cmd: exec.CommandContext(c.t.Context(), "nsenter", args...)}
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.err
	must(c.t, r.cmd.Start())
	c.onCleanup(func(context.Context) error {
		_ = r.cmd.Process.Kill() // it has ended, unless the test failed
		return nil
	})
	must(c.t, eventually(c.t, func() error {
		if tables, err := n.Run(c.t.Context(), "nft", "list", "tables"); err != nil ||
			!strings.Contains(tables, "http01-trace") {
			return fmt.Errorf("no table of a trace: %w: %s", err, tables)
		}
		return nil
	}))
	return r
}

type runningTrace struct {
	cmd      *exec.Cmd
	out, err strings.Builder
}

// end waits for the end of a trace, and returns its document and exit code.
func (r *runningTrace) end(t *testing.T) (found traceReport, code int) {
	t.Helper()
	err := r.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if r.err.Len() > 0 {
		t.Errorf("trace: %s", r.err.String())
	}
	must(t, json.NewDecoder(strings.NewReader(r.out.String())).Decode(&found))
	return found, r.cmd.ProcessState.ExitCode()
}

// TestTraceCommand: a healthy request and its reply until an interrupt, no packet at all, a VIP that
// leaves meanwhile, and a host without a VIP. Nothing stays in nftables.
func TestTraceCommand(t *testing.T) {
	c := healthy(t, func(n *lab.Node) string { return n.TestConfig(0) })
	before, err := c.holder().Run(t.Context(), "nft", "list", "tables")
	must(t, err)
	expectNoTables := func() {
		t.Helper()
		if after, err := c.holder().Run(t.Context(), "nft", "list", "tables"); err != nil || after != before {
			t.Errorf("%v, the tables were\n%s\nand are\n%s", err, before, after)
		}
	}

	r := c.startTrace(c.holder(), "--from", c.Gateway.Addresses.V4.String())
	must(t, c.request(c.API.V4))
	must(t, c.request(c.API.V6)) // not selected
	must(t, r.cmd.Process.Signal(os.Interrupt))
	found, code := r.end(t)
	replies := 0
	for _, p := range found.Packets {
		if p.Client.Addr() != c.Gateway.Addresses.V4 || p.Reply && p.End != "sent" || !p.Reply && p.End != "delivered" {
			t.Errorf("%+v", p)
		}
		if p.Reply {
			replies++
		}
	}
	if code != 0 || replies == 0 || replies == len(found.Packets) || len(found.VIPs) != 2 {
		t.Errorf("exit code %d, %+v", code, found)
	}
	expectNoTables()

	found, code = c.startTrace(c.holder(), "--duration", "2s", "--from", "203.0.113.77").end(t)
	if code != 4 || len(found.Packets) != 0 || !strings.HasPrefix(found.Message, "nothing arrived from 203.0.113.77: ") {
		t.Errorf("exit code %d, %+v", code, found)
	}
	expectNoTables()

	_, err = c.ControlPlane[1].Run(t.Context(), shared.binary, slices.Concat([]string{"trace"},
		c.ControlPlane[1].CheckFlags()[:10])...)
	if err == nil || !strings.Contains(err.Error(), "does not hold the API VIP ") || !strings.Contains(err.Error(),
		`run "oc http01 trace"`) {
		t.Errorf("on a host on standby: %v", err)
	}

	r = c.startTrace(c.holder())
	must(t, c.ControlPlane[0].StopKeepalived(t.Context()))
	c.onCleanup(c.ControlPlane[0].StartKeepalived)
	if found, _ = r.end(t); !strings.HasPrefix(found.Message, "the trace ended early: this host no longer holds ") {
		t.Errorf("%+v", found)
	}
	expectNoTables()
}
