// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestVIPMoveDoesNotWait moves a VIP while each fsync takes 5 s and the DNS server never
// answers. The rule must follow as fast as without: neither is on the path from an address
// event to the rule.
func TestVIPMoveDoesNotWait(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Fatalf("strace injects the delay: %v: run test/install-packages lab", err)
	}
	addLink(t, "addr add 203.0.113.11/24 dev lan0")
	const base = "vips: {api: [" + vip + "], ingress: [198.51.100.6]}\nhosts: [api.example.com]\n"
	withProxy := func(name string) string {
		return base + "egressProxy: {upstream: auto, httpProxy: 'http://" + name + ":3128'}\n"
	}
	s := newService(t, withProxy("first.test"))
	// The address exists, and nothing answers there.
	must(t, os.WriteFile(filepath.Join(s.dir, "resolv.conf"), []byte("nameserver 203.0.113.53\n"), 0o600))
	s.start(nil, strace, "-D", "-f", "-qqq", "-o", filepath.Join(s.dir, "trace"), "--seccomp-bpf", "-e", "trace=fsync", "-e", "inject=fsync:delay_enter=5000000")
	s.awaitNotification("READY=1")
	var slowest time.Duration
	var slowestRule float64
	for i := range 3 {
		// A new configuration is saved, and its proxy has a new name.
		s.configure(withProxy(fmt.Sprintf("proxy%d.test", i)))
		s.awaitNotification("RELOADING=1")
		begin := time.Now()
		addVIP(t)
		s.await("the VIP in the table", func(r report.Report) bool { return len(r.Table.Elements) == 1 })
		slowest = max(slowest, time.Since(begin))
		r := s.await("the VIP in the report", func(r report.Report) bool { return len(r.VIPs) == 1 && r.VIPs[0].State == report.VIPHeld })
		slowestRule = max(slowestRule, r.Events.LastRuleDelay)
		nstest.Run(t, "ip", "addr", "del", vip+"/32", "dev", "lan0")
		s.await("the VIP no longer in the table", func(r report.Report) bool { return len(r.Table.Elements) == 0 })
	}
	t.Logf("the slowest move took %v, of these %v µs from the event to the rule", slowest.Round(time.Millisecond), slowestRule)
	if slowest > 2*time.Second || slowestRule > 1e6 {
		t.Errorf("a move took %v, %v µs from the event to the rule", slowest, slowestRule)
	}
	trace, err := os.ReadFile(filepath.Join(s.dir, "trace"))
	must(t, err)
	if !strings.Contains(string(trace), "fsync(") {
		t.Error("no fsync was delayed, so this shows nothing")
	}
}
