// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
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

// TestSpoofedRequests sends 25 invented requests a second with cert-manager's User-Agent for
// another host, and as many with check's User-Agent for a host whose application answers
// everything. A self check of the API's name that fails has its first and last entry, and the
// application costs few lines.
func TestSpoofedRequests(t *testing.T) {
	l, _ := cluster(t)
	api, app := publishName(t, l, "api", l.API), publishName(t, l, "answering", l.API)
	other := publishName(t, l, "other", l.API)
	listener, err := l.Worker.Listen(t.Context(), "127.0.0.1:0")
	must(t, err)
	stopApp := Serve(listener, nil, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("an application"))
	}))
	route, err := l.Worker.AddRoute(t.Context(), app, "/.well-known", listener.Addr().(*net.TCPAddr).Port)
	must(t, err)
	t.Cleanup(func() {
		must(t, route.Remove(context.Background()))
		must(t, stopApp())
	})
	log := followLog(t, l.ControlPlane[0].Node)
	var services []*Service
	for _, m := range l.ControlPlane {
		config := m.DefaultConfig() + "hosts: [" + strings.Join([]string{api, app, other}, ", ") + "]\n"
		services = append(services, start(t, m.Node, ServiceOptions{Config: config}))
	}
	awaitHolder(t, l, services, 0)

	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	defer clients.Wait()
	defer cancel()
	begin := time.Now()
	const checkAgent = "http01-proxyd-check"
	var answered atomic.Int64
	spoof := func(from *Node, agent, name string) {
		every := time.NewTicker(40 * time.Millisecond)
		defer every.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-every.C:
				clients.Go(func() {
					if _, err := from.GetAs(ctx, agent, fmt.Sprintf("http://%s%sspoofed-%d", name, acmePrefix, n)); err == nil {
						answered.Add(1)
					}
				})
			}
		}
	}
	clients.Go(func() { spoof(l.Pods[1], SelfCheckAgent, other) })
	clients.Go(func() { spoof(l.Internet.Node, checkAgent, app) })
	text := func() string {
		text, err := log.text()
		must(t, err)
		return text
	}
	must(t, Within(ctx, 2*time.Minute, "spoofed requests", func(context.Context) error {
		if n := answered.Load(); n < 500 {
			return fmt.Errorf("%d", n)
		}
		return nil
	}))
	// The first eight characters are in the journal.
	const token = "realtoken-of-a-failing-renewal"
	title := `challenge realtoke… for \"` + api + `\"`
	repeat := time.NewTicker(10 * time.Second)
	defer repeat.Stop()
	for range 3 {
		answer, err := l.Pods[1].GetAs(ctx, SelfCheckAgent, "http://"+api+acmePrefix+token)
		if err != nil || answer.Status != http.StatusServiceUnavailable {
			t.Fatalf("status %d: %v", answer.Status, err)
		}
		<-repeat.C
	}
	log.await(t, title+": cert-manager's self check from ")
	must(t, Within(ctx, 2*time.Minute, "the end of the challenge", func(context.Context) error {
		if !strings.Contains(text(), title+" has ended: self check 0/3 ok, last → 503 route-missing, ") {
			return errors.New("no entry")
		}
		return nil
	}))
	took := time.Since(begin)
	lines := 0
	for line := range strings.Lines(text()) {
		if strings.Contains(line, "event=challenge") && strings.Contains(line, "host="+app) {
			lines++
		}
	}
	t.Logf("%d lines about the application in %v", lines, took)
	// Six entries, two more a minute, and one with the number of the others.
	if lines == 0 || float64(lines) > 7+3*took.Minutes() {
		t.Errorf("%d lines about the application in %v", lines, took)
	}
}
