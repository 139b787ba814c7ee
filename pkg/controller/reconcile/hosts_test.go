// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/settled"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// expectHosts checks which names the proxy accepts and which names of the API others get, and
// returns what the status reports.
func (f *fixture) expectHosts(when, accepted, apiNames string) report.AcceptedHosts {
	f.t.Helper()
	reported := f.tracker.Report(report.Table{}).AcceptedHosts
	f.withLock(func() {
		got := strings.Join(f.observed.Config.Hosts, " ")
		if configured := strings.Join(f.configured.Hosts, " "); got != accepted || configured != accepted ||
			got != strings.Join(reported.Names, " ") {
			f.t.Errorf("%s: %q accepted, %q configured, %q reported, want %q", when, got, configured, reported.Names, accepted)
		}
		known, err := strings.Join(f.observed.APINames, " "), f.observed.APINamesErr
		if known != apiNames || (apiNames == "") != (err != nil) {
			f.t.Errorf("%s: names of the API %q (%v), want %q", when, known, err, apiNames)
		}
	})
	return reported
}

// TestAcceptedHosts: without hosts, the API's name is accepted as soon as its file has it. A file
// that is being replaced or is broken changes nothing, and a missing one is no fault.
func TestAcceptedHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			name  = "api.a.example"
			other = "api.b.example"
			vips  = "vips: {api: [192.0.2.5], ingress: [192.0.2.6]}\n"
		)
		envOf := func(cluster string) string { return "KUBERNETES_SERVICE_HOST='api-int." + cluster + "'\n" }
		f := startLoop(t, func(f *fixture) { f.held = parsePrefixes("192.0.2.5/32 eth0") })
		defer f.stop()
		signal := func(wait time.Duration) {
			f.fileEvents <- struct{}{}
			synctest.Wait()
			idle(wait)
		}
		if got := f.expectHosts("no file", "", ""); got.Source != report.HostsUnknown ||
			!strings.Contains(got.Note, "url.env: no such file or directory: set hosts in "+filepath.Join(f.dir, "config.yaml")) {
			t.Errorf("no file: %+v", got)
		}
		const anyName = "holds 192.0.2.5; accepts challenges for any name, because the API's name is not known"
		f.expect("no file", report.Serving, anyName)

		f.write("url.env", envOf("a.example"))
		signal(settled.ChangeDelay)
		f.expectHosts("a name", name, name)
		f.expect("a name", report.Serving, "holds 192.0.2.5; accepts challenges for api.a.example only (the API's name in ")

		f.write("url.env", "KUBERNETES_SERVICE_HOST='api-int.a.exam")
		signal(0)
		f.expectHosts("half a file", name, name)
		f.write("url.env", envOf("b.example"))
		signal(settled.ChangeDelay)
		f.expectHosts("another name", other, other)

		must(t, os.Remove(filepath.Join(f.dir, "url.env")))
		signal(settled.LossDelay - time.Millisecond)
		f.expectHosts("while it is replaced", other, other)
		f.write("url.env", envOf("a.example"))
		signal(settled.ChangeDelay)
		f.expectHosts("replaced", name, name)
		for what, breakFile := range map[string]func(){
			"removed":     func() { must(t, os.Remove(filepath.Join(f.dir, "url.env"))) },
			"empty":       func() { f.write("url.env", "") },
			"an address":  func() { f.write("url.env", "KUBERNETES_SERVICE_HOST='192.0.2.5'\n") },
			"a directory": func() { must(t, os.Remove(filepath.Join(f.dir, "url.env"))); f.write("url.env/x", "") },
		} {
			breakFile()
			signal(settled.LossDelay)
			accepted, message := name, "accepts challenges for "+name+" only"
			if what == "removed" {
				accepted, message = "", anyName
			}
			f.expectHosts(what, accepted, accepted)
			f.expect(what, report.Serving, message)
			must(t, os.RemoveAll(filepath.Join(f.dir, "url.env")))
			f.write("url.env", envOf("a.example"))
			signal(settled.ChangeDelay)
			f.expectHosts("after "+what, name, name)
		}

		f.configure(vips + "hosts: [console.a.example, api.a.example]\n")
		signal(settled.ChangeDelay)
		f.expectHosts("configured", "console.a.example api.a.example", name)
		f.expect("configured", report.Serving, "console.a.example, api.a.example only (hosts in ")
		f.configure(vips + "hosts: ['*']\n")
		signal(settled.ChangeDelay)
		if got := f.expectHosts("any", "", name); got.Source != report.HostsAny || got.Note != "" {
			t.Errorf("any: %+v", got)
		}
		if c := f.expect("any", report.Serving, "holds 192.0.2.5"); strings.Contains(c.Message, "accepts") {
			t.Errorf("any: %s", c.Message)
		}
		f.configure(vips + "hosts: []\n")
		signal(settled.ChangeDelay)
		f.expectHosts("an empty list", name, name)
		f.configure("mode: ''\n")
		signal(settled.ChangeDelay)
		if got := f.tracker.Report(report.Table{}).AcceptedHosts; got.Source != "" {
			t.Errorf("disabled: %+v", got)
		}
	})
}

// TestAcceptedHostsOfMicroShift: MicroShift's configuration has the names.
func TestAcceptedHostsOfMicroShift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startLoop(t, func(f *fixture) {
			f.microShift("ms", "")
			f.write("ms/config.yaml", "dns: {baseDomain: edge.test}\nnode: {nodeIP: 192.0.2.9}\ningress: {ports: {http: 8080}}\n")
			f.held = parsePrefixes("192.0.2.9/24 eth0")
		})
		defer f.stop()
		f.expectHosts("a base domain", "api.edge.test", "api.edge.test")
		f.expect("a base domain", report.Serving,
			"holds 192.0.2.9 (MicroShift's node address); accepts challenges for api.edge.test only (the API's name in ")
		f.write("ms/config.d/10.yaml", "apiServer: {namedCertificates: [{certPath: /a.crt, keyPath: /a.key}]}\n")
		f.fileEvents <- struct{}{}
		synctest.Wait()
		idle(time.Second)
		reported := f.tracker.Report(report.Table{}).AcceptedHosts
		if reported.Source != report.HostsUnknown || !strings.Contains(reported.Note, "namedCertificates") {
			t.Errorf("a certificate without names: %+v", reported)
		}
		f.withLock(func() {
			if len(f.observed.Config.Hosts) > 0 || len(f.observed.APINames) != 1 {
				t.Errorf("a certificate without names: %q, %q", f.observed.Config.Hosts, f.observed.APINames)
			}
		})
	})
}
