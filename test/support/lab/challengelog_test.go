// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"regexp"
	"strings"
	"testing"
)

// TestChallengeLog holds that a whole challenge, from cert-manager's first self check to
// the CA's last perspective, is logged with one line at its beginning and one at its end.
func TestChallengeLog(t *testing.T) {
	l, _ := cluster(t)
	log := followLog(t, l.ControlPlane[0].Node)
	services := startAll(t, l)
	name := publishName(t, l, "challengelog", l.API)
	orderCertificate(t, l, name, l.Pods[1])
	must(t, services[0].Stop(t.Context()))
	text, err := log.text()
	must(t, err)
	var challenges []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, "event=challenge") {
			challenges = append(challenges, line)
		}
	}
	t.Log("\n" + strings.Join(challenges, ""))
	title := `challenge [^ ]{8}… for \\"` + regexp.QuoteMeta(name) + `\\"`
	want := []string{
		title + `: cert-manager's self check from ` + regexp.QuoteMeta(l.Pods[1].Addresses.V6.String()) +
			` got 200 from .* event=challenge-started .* client_kind=cert-manager `,
		title + ` has ended: self check ok ×5, CA \(Pebble\) 3/3 → 200, [0-9.]+ ms, [0-9]+ s" event=challenge-ended .* requests=8 requests_ok=8 `,
	}
	if len(challenges) != len(want) {
		t.Fatalf("%d lines, want %d", len(challenges), len(want))
	}
	for i := range want {
		if !regexp.MustCompile(want[i]).MatchString(challenges[i]) {
			t.Errorf("line %d does not match %s", i, want[i])
		}
	}
}
