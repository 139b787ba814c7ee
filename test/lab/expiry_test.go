// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// presenting is a certificate of an issuer for a name, with so much of its life
// left.
func presenting(t *testing.T, name, issuer string, life, left time.Duration) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	until := time.Now().Add(left)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(until.UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: until.Add(-life), NotAfter: until,
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, &x509.Certificate{Subject: pkix.Name{CommonName: issuer}}, &key.PublicKey, key)
	must(t, err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// serveAPI stands in for kube-apiserver on a node, at every address that it has:
// the real one needs an etcd and the keys of a cluster. Like that one it presents a
// certificate by name, and its own for every other name.
func serveAPI(t *testing.T, n *Node, byName map[string]*tls.Certificate) net.Listener {
	t.Helper()
	ln, err := n.Listen(t.Context(), ":6443")
	must(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if c := byName[hello.ServerName]; c != nil {
			return c, nil
		}
		return byName[""], nil
	}}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(dialTimeout))
				secure := tls.Server(conn, config)
				if secure.Handshake() == nil {
					_, _ = secure.Read(make([]byte, 1))
				}
			}()
		}
	}()
	return ln
}

// TestExpiryWatch: every master looks at what the API server presents on the VIPs,
// wherever these are, says so when it is late, and keeps it in sight when the API
// server goes.
func TestExpiryWatch(t *testing.T) {
	const day = 24 * time.Hour
	l, _ := cluster(t)
	name := "api." + l.Domain
	byName := map[string]*tls.Certificate{
		"":   presenting(t, "10.0.0.1", "kube-apiserver-lb-signer", 30*day, 20*day),
		name: presenting(t, name, "R11", 6*day, 30*time.Hour),
	}
	var servers []net.Listener
	for _, m := range l.Masters {
		servers = append(servers, serveAPI(t, m.Node, byName))
	}
	var logs []*tailed
	for _, m := range l.Masters {
		logs = append(logs, follow(t, m.Node))
	}
	services := measured(t, l, "hosts: ["+name+"]\n")
	end := func(c *tls.Certificate) float64 { return float64(c.Leaf.NotAfter.Unix()) }
	begin := func(c *tls.Certificate) float64 { return float64(c.Leaf.NotBefore.Unix()) }
	want := map[string]float64{
		`http01_proxy_api_certificate_not_after_seconds{issuer="kube-apiserver-lb-signer",name=""}`:  end(byName[""]),
		`http01_proxy_api_certificate_not_before_seconds{issuer="kube-apiserver-lb-signer",name=""}`: begin(byName[""]),
		`http01_proxy_api_certificate_not_after_seconds{issuer="R11",name="` + name + `"}`:           end(byName[name]),
		`http01_proxy_api_certificate_not_before_seconds{issuer="R11",name="` + name + `"}`:          begin(byName[name]),
	}
	for i, m := range l.Masters {
		awaitSeries(t, l.Worker.Node, m.Addresses.V4, want)
		logs[i].awaits(t, `the certificate that the API server presents on `+l.API.V4.String()+`:6443, [`+l.API.V6.String()+`]:6443 for `+name+`, issued by R11, expires in 29h, `)
		logs[i].awaits(t, "event=certificate")
	}

	for _, ln := range servers {
		must(t, ln.Close())
	}
	m := l.Masters[0]
	must(t, m.WriteConfig(m.DefaultConfig()+"metrics: {listenAddress: \":"+metricsPort+"\"}\nhosts: ["+name+", another."+l.Domain+"]\n"))
	logs[0].awaits(t, "the API server at "+l.API.V4.String()+":6443 does not present a certificate, so that nobody sees when it expires: ")
	awaitSeries(t, l.Worker.Node, m.Addresses.V4, want)
	if n, err := logs[0].lines("event=certificate"); n != 3 || err != nil {
		t.Errorf("%d lines about certificates, want one that is late and one for each VIP: %v\n%s", n, err, services[0].Tail(20))
	}
}

// tailed is what a node's services log from now on: a log is that of all of them.
type tailed struct {
	node *Node
	path string
	from int
}

func follow(t *testing.T, n *Node) *tailed {
	t.Helper()
	l := &tailed{node: n, path: filepath.Join(n.Dir, "http01-proxyd.log")}
	text, err := os.ReadFile(l.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	l.from = len(text)
	return l
}

func (l *tailed) text() (string, error) {
	text, err := os.ReadFile(l.path)
	return string(text[min(l.from, len(text)):]), err
}

// lines counts those with a text.
func (l *tailed) lines(part string) (n int, err error) {
	text, err := l.text()
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n, err
}

// awaits waits for a line.
func (l *tailed) awaits(t *testing.T, part string) {
	t.Helper()
	must(t, Eventually(t.Context(), fmt.Sprintf("%q in the log of %s", part, l.node), func(context.Context) error {
		if n, err := l.lines(part); n == 0 {
			return errors.Join(errors.New("it is not there"), err)
		}
		return nil
	}))
}
