// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// mountStalled mounts a file system whose server does not respond. The result ends it.
func mountStalled(t *testing.T, dir string) (end func()) {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o700))
	server, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	must(t, err)
	must(t, unix.Mount("stalled", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", server.Fd())))
	end = func() { _ = server.Close() } // pending requests fail with ENOTCONN
	t.Cleanup(func() {
		end()
		_ = unix.Unmount(dir, unix.MNT_DETACH)
	})
	return end
}

// TestStalledFileRead: the conditions report a watcher that hangs in a file read. The
// service continues to answer by the last settings.
func TestStalledFileRead(t *testing.T) {
	for condition, path := range map[string]string{
		report.TrustConditionType:  "upstream: {trustedCA: %s}",
		report.EgressConditionType: "egressProxy: {file: %s}",
	} {
		t.Run(condition, func(t *testing.T) {
			s := startService(t, writeKey, explicit, serviceTiming+`={"StallTimeout": 200000000}`)
			s.awaitReason(report.Serving)
			isReady := func(r report.Report) bool {
				for _, c := range r.Conditions {
					if c.Type == condition {
						return c.Status == "True" || !strings.Contains(c.Message, "has not finished after 200ms")
					}
				}
				return false
			}
			s.await(condition, isReady)
			stalled := filepath.Join(s.dir, "stalled")
			end := mountStalled(t, stalled)
			s.configure(explicit + fmt.Sprintf(path, filepath.Join(stalled, "file")) + "\n")
			s.await("the stall", func(r report.Report) bool { return !isReady(r) })
			s.awaitLog("has not finished after 200ms")
			checkAnswered(t, "during the stall")
			end()
			s.await("its end", isReady)
			s.stop()
		})
	}
}

// TestFirstConfigurationWithHungFile: the first configuration does not wait for
// egressProxy.file, with or without its use.
func TestFirstConfigurationWithHungFile(t *testing.T) {
	for name, use := range map[string]string{"never": "", "auto": ", upstream: auto}\nupstream: {scheme: https"} {
		t.Run(name, func(t *testing.T) {
			addNetwork(t, writeKey)
			addVIP(t)
			s := newService(t, "")
			mountStalled(t, filepath.Join(s.dir, "stalled"))
			s.configure(explicit + fmt.Sprintf("egressProxy: {file: %s%s}\n", filepath.Join(s.dir, "stalled/file"), use))
			s.start([]string{serviceTiming + `={"StallTimeout": 200000000}`})
			s.awaitNotification("READY=1")
			s.await("an answer", func(r report.Report) bool { // the ingress has no port 443
				return r.Condition().Reason == report.Serving || r.Condition().Reason == report.UpstreamUnreachable
			})
			if use == "" {
				checkAnswered(t, "while the file hangs")
			}
			s.await("the stall", func(r report.Report) bool { return r.EgressProxy.InvalidInput == report.EgressInputFile })
			s.stop() // also while the file hangs
		})
	}
}

// TestBlockingInclude: a file of keepalived.conf that cannot be read costs an error. The table follows the
// VIPs, and the configuration is read.
func TestBlockingInclude(t *testing.T) {
	const instances = "vrrp_instance lab_API_0 {\nvirtual_ipaddress {\n" + vip + "\n}\n}\n" +
		"vrrp_instance lab_INGRESS_0 {\nvirtual_ipaddress {\n" + ingressAddr + "\n}\n}\n"
	const hangs = "stalled/%s has not finished after 5s: check its file system"
	for name, tt := range map[string]struct{ included, want string }{
		"a file of procfs that blocks": {"link", "link is a file of the kernel, such as one in /proc or /sys"},
		"a file that hangs":            {"stalled/file", fmt.Sprintf(hangs, "file")},
		"a directory that hangs":       {"stalled/*.conf", "stalled has not finished after 5s: check its file system"},
	} {
		t.Run(name, func(t *testing.T) {
			addNetwork(t, writeKey)
			addVIP(t)
			s := newService(t, "")
			mountStalled(t, filepath.Join(s.dir, "stalled"))
			must(t, os.Symlink("/proc/kmsg", filepath.Join(s.dir, "link")))
			file := filepath.Join(s.dir, "keepalived.conf")
			must(t, os.WriteFile(file, []byte(instances), 0o600))
			s.configure("vips: {keepalivedConfig: " + file + "}\n")
			s.start(nil)
			s.awaitReason(report.Serving)
			must(t, os.WriteFile(file, []byte("include "+tt.included+"\n"+instances), 0o600))
			s.awaitLog(tt.want)
			nstest.Run(t, "ip", "addr", "del", vip+"/32", "dev", "lan0")
			s.await("a table without VIP", func(r report.Report) bool { return r.Table.Present && len(r.Table.Elements) == 0 })
			addVIP(t)
			s.await("a table with VIP", func(r report.Report) bool { return len(r.Table.Elements) == 1 })
			checkAnswered(t, "while the include hangs")
			s.configure(explicit)
			s.awaitLog("new configuration active")
			if log := s.log.String(); strings.Contains(log, "has not finished after 10s") {
				t.Error("reading stalled")
			}
			s.stop()
		})
	}
}

// TestHungDropIns: a directory of MicroShift's configuration that hangs costs an error. The other files
// are read.
func TestHungDropIns(t *testing.T) {
	addNetwork(t, writeKey)
	addVIP(t)
	s := newService(t, "")
	s.configure(explicit)
	s.start(nil)
	s.awaitReason(report.Serving)
	mountStalled(t, filepath.Join(s.dir, "config.d"))
	s.configure(explicit + "microshift: {directory: " + s.dir + "}\n")
	s.awaitLog("config.d has not finished after 5s: check its file system")
	s.configure(explicit + "hosts: [api.example.com]\n")
	s.await("the next configuration", func(r report.Report) bool { return len(r.AcceptedHosts.Names) == 1 })
	if log := s.log.String(); strings.Contains(log, "has not finished after 10s") {
		t.Error("reading stalled")
	}
	s.stop()
}
