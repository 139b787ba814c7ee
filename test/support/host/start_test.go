// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestKeepalivedStartedLater starts the unit without configuration and keepalived.conf: it
// is idle. When keepalived starts later, the service serves its VIPs, and every output of
// the state shows it.
func TestKeepalivedStartedLater(t *testing.T) {
	s := newService(t, false)
	s.systemctl("start", unit)
	s.awaitStatus("NotRequired: /etc/keepalived/keepalived.conf does not exist")
	if listening := s.run("ss", "-Hltn"); s.hasTable() || strings.TrimSpace(listening) != "" {
		t.Errorf("table: %t, listeners:\n%s", s.hasTable(), listening)
	}
	s.keepalived(true)
	s.awaitStatus(
		"Serving: holds 192.0.2.5, fd4e:5f2a:9c01:1::5; accepts challenges for any name, because the API's name is not " +
			"known, upstream 192.0.2.6:80, upstream [fd4e:5f2a:9c01:1::6]:80, no " +
			"challenges yet")
	s.challenge()
	for _, vip := range s.api {
		status, body, err := s.get(vip, "/healthz")
		if err != nil || status != http.StatusBadRequest || strings.TrimSpace(body) != rejection {
			t.Errorf("%v: wrong path: %d %q %v", vip, status, body, err)
		}
	}
	s.awaitStatus(
		"Serving: holds 192.0.2.5, fd4e:5f2a:9c01:1::5; accepts challenges for any name, because the API's name is not " +
			"known, upstream 192.0.2.6:80, upstream [fd4e:5f2a:9c01:1::6]:80, 2 " +
			"challenges, last 200")

	text := s.run(binaryPath, "status", "-o", "wide")
	for _, want := range []string{
		`(?m)^State: +[✓!] Serving.* for \d+s \(HTTP01ChallengeProxyReady=True\)$`,
		`(?m)^API VIP: +192\.0\.2\.5 held here for \d+s$`,
		`(?m)^API VIP: +fd4e:5f2a:9c01:1::5 held here for \d+s$`,
		`(?m)^Table: +inet http01-proxyd present, redirects port 80 of .* to port 8888$`,
		`(?m)^Ingress: +✓ 192\.0\.2\.6:80 accepts connections, `,
		`(?m)^Configuration: +defaults \(no /etc/http01-proxyd/config\.yaml\)$`,
		`(?m)^Challenges: +2 forwarded, 2 rejected as not-challenge$`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("status lacks %s:\n%s", want, text)
		}
	}
	report, err := s.report(t.Context())
	s.requireNoError(err)
	var held []string
	for _, v := range report.VIPs {
		held = append(held, v.Address+" "+v.State)
	}
	if diff := cmp.Diff([]string{"192.0.2.5 Held", "fd4e:5f2a:9c01:1::5 Held"}, held); diff != "" {
		t.Errorf("VIPs (-want +got):\n%s", diff)
	}
	if report.Condition().Reason != "Serving" || report.Condition().Status != "True" || report.Challenges.Total != 2 {
		t.Errorf("status -o json: %+v", report)
	}
}

// TestStatusIsForRoot holds that only root can read the status, which lists names that get
// certificates.
func TestStatusIsForRoot(t *testing.T) {
	s := startServing(t)
	// With --watch the command must not wait for an answer.
	for user, flag := range map[string]string{"nobody": "--output=text", "daemon": "--watch"} {
		out, err := s.node.Run(t.Context(), "setpriv", "--reuid="+user, "--regid=nogroup", "--clear-groups", binaryPath,
			"status", flag)
		if err == nil || out != "" {
			t.Errorf("as %s: %q, %v", user, out, err)
		} else if !strings.Contains(err.Error(), "permission denied") || !strings.Contains(err.Error(),
			"only root may connect") {
			t.Errorf("as %s, wrong error: %v", user, err)
		}
	}
}
