// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// serveAPI presents certificates by name on all control-plane nodes, and the one of "" for
// other names.
func serveAPI(t *testing.T, l *Lab, issued map[string]*tls.Certificate) (servers []*APIServer) {
	t.Helper()
	for _, m := range l.ControlPlane {
		a, err := m.ServeAPI(t.Context(), func(name string, _ netip.Addr) *tls.Certificate {
			if c := issued[name]; c != nil {
				return c
			}
			return issued[""]
		})
		must(t, err)
		t.Cleanup(func() { _ = a.Close() })
		servers = append(servers, a)
	}
	return servers
}

// TestExpiryWatch holds that every control-plane node reads the certificate that the API
// server presents on the VIPs, logs a late renewal, and keeps its metrics when the API
// server stops.
func TestExpiryWatch(t *testing.T) {
	const day = 24 * time.Hour
	l, _ := cluster(t)
	name := "api." + l.Domain
	byName := map[string]*tls.Certificate{}
	for _, c := range []struct {
		name, issuer   string
		lifetime, left time.Duration
	}{
		{"", "kube-apiserver-lb-signer", 30 * day, 20 * day},
		{name, "R11", 6 * day, 30 * time.Hour},
	} {
		made, err := Issue(c.issuer, c.lifetime, c.left, cmp.Or(c.name, "10.0.0.1"))
		must(t, err)
		byName[c.name] = made
	}
	servers := serveAPI(t, l, byName)
	for _, m := range l.ControlPlane {
		must(t, m.WriteAPIServerURL("api-int."+l.Domain))
		t.Cleanup(func() { _ = os.Remove(m.APIServerURL()) })
	}
	var logs []*logFollower
	for _, m := range l.ControlPlane {
		logs = append(logs, followLog(t, m.Node))
	}
	services := startWithMetrics(t, l, "") // the host provides the name
	end := func(c *tls.Certificate) float64 { return float64(c.Leaf.NotAfter.Unix()) }
	begin := func(c *tls.Certificate) float64 { return float64(c.Leaf.NotBefore.Unix()) }
	want := map[string]float64{
		`http01_proxy_api_certificate_not_after_timestamp_seconds{name=""}`:              end(byName[""]),
		`http01_proxy_api_certificate_not_before_timestamp_seconds{name=""}`:             begin(byName[""]),
		`http01_proxy_api_certificate_not_after_timestamp_seconds{name="` + name + `"}`:  end(byName[name]),
		`http01_proxy_api_certificate_not_before_timestamp_seconds{name="` + name + `"}`: begin(byName[name]),
	}
	for i, m := range l.ControlPlane {
		awaitSeries(t, l.Worker.Node, m.Addresses.V4, want)
		logs[i].await(t, `The certificate that `+l.API.V4.String()+`:6443, [`+l.API.V6.String()+
			`]:6443 presents for `+name+` (issued by \"R11\") expires on `)
		logs[i].await(t, "event=certificate")
	}

	for _, a := range servers {
		must(t, a.Close())
	}
	m := l.ControlPlane[0]
	must(t, m.WriteConfig(m.DefaultConfig()+"metrics: {listenAddress: \":"+metricsPort+"\"}\nhosts: ["+name+", another."+
		l.Domain+"]\n"))
	logs[0].await(t, "the API server does not present a certificate on "+l.API.V4.String()+":6443 for ")
	awaitSeries(t, l.Worker.Node, m.Addresses.V4, want)
	if n, err := logs[0].lines("event=certificate"); n != 3 || err != nil {
		t.Errorf("%d lines about certificates, want one for the late renewal and one for each VIP: %v\n%s", n, err,
			services[0].Tail(20))
	}
}

// logFollower reads what a node's services log from now on. All services of a node share
// the log.
type logFollower struct {
	node *Node
	path string
	from int
}

func followLog(t *testing.T, n *Node) *logFollower {
	t.Helper()
	l := &logFollower{node: n, path: filepath.Join(n.Dir, "http01-proxyd.log")}
	text, err := os.ReadFile(l.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	l.from = len(text)
	return l
}

func (l *logFollower) text() (string, error) {
	text, err := os.ReadFile(l.path)
	return string(text[min(l.from, len(text)):]), err
}

// lines counts lines with a text.
func (l *logFollower) lines(part string) (n int, err error) {
	text, err := l.text()
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n, err
}

// await waits for a line with a text.
func (l *logFollower) await(t *testing.T, part string) {
	t.Helper()
	must(t, Eventually(t.Context(), fmt.Sprintf("%q in the log of %s", part, l.node), func(context.Context) error {
		if n, err := l.lines(part); n == 0 {
			return errors.Join(errors.New("no such line"), err)
		}
		return nil
	}))
}
