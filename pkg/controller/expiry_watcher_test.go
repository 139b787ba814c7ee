// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const apiName = "api.cluster.example.com"

// apiServer replaces kube-apiserver, which requires an etcd and a cluster's keys: a TLS
// server that presents certificates by name.
type apiServer struct {
	mu     sync.Mutex
	byName map[string]*tls.Certificate // "" for all others
}

// present makes a certificate for a name that expires after left, of a life.
func (a *apiServer) present(t *testing.T, name, issuer string, life, left time.Duration) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<60))
	must(t, err)
	until := time.Now().Add(left)
	leaf := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, DNSNames: []string{apiName},
		NotBefore: until.Add(-life), NotAfter: until,
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, &x509.Certificate{Subject: pkix.Name{CommonName: issuer}},
		&private.PublicKey, private)
	must(t, err)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.byName[name] = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
}

func (a *apiServer) certificateFor(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.byName[hello.ServerName]; c != nil {
		return c, nil
	}
	return a.byName[""], nil
}

// startAPIServer serves on the VIP, which the host has to hold.
func startAPIServer(t *testing.T) *apiServer {
	t.Helper()
	a := &apiServer{byName: make(map[string]*tls.Certificate)}
	secure := tls.NewListener(listen(t, vip+":6443"), &tls.Config{
		GetCertificate: a.certificateFor,
		MinVersion:     tls.VersionTLS12,
	})
	go func() {
		for {
			conn, err := secure.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(nstest.Timeout))
				_, _ = conn.Read(make([]byte, 1))
			}()
		}
	}()
	return a
}

// The certificates of the API server are in the report, in the metrics and, before they
// expire, in the journal. The prober process that read them ends.
func TestExpiryWatcher(t *testing.T) {
	const day = 24 * time.Hour
	addNetwork(t, writeKey)
	addVIP(t)
	api := startAPIServer(t)
	api.present(t, "", "cluster-signer", 30*day, 29*day)
	api.present(t, apiName, "R11", 90*day, 8*day)
	s := newService(t, withMetrics+"hosts: ["+apiName+"]\n")
	s.start([]string{serviceTiming + `={"ExpiryCheckInterval": 50000000}`})
	r := s.await("both certificates seen", func(r report.Report) bool { return len(r.Certificates) == 2 })
	for i, want := range []report.Certificate{{Name: "", Issuer: "cluster-signer"}, {Name: apiName, Issuer: "R11"}} {
		if c := r.Certificates[i]; c.Address != vip+":6443" || c.Name != want.Name || c.Issuer != want.Issuer ||
			c.Error != "" || time.Until(c.NotAfter) < 7*day {
			t.Errorf("certificate %+v", c)
		}
	}
	s.awaitMetric(fmt.Sprintf(`http01_proxy_api_certificate_not_after_timestamp_seconds{name="%s"} %v`, apiName,
		float64(r.Certificates[1].NotAfter.Unix())))
	s.awaitLog("level=ERROR msg=\"The certificate that " + vip + ":6443 presents for " + apiName +
		" (issued by \\\"R11\\\") expires on ")
	s.awaitLog("event=certificate address=" + vip + ":6443 name=" + apiName + " issuer=R11 serial=")
	if !nstest.Poll(func() bool { return s.childPID(child.Prober) == 0 }) {
		t.Error("the prober process does not end")
	}

	// Another name causes a read before the hour passes.
	api.present(t, apiName, "R12", 90*day, 90*day)
	s.configure(withMetrics + "hosts: [" + apiName + ", api-int.cluster.example.com]\n")
	r = s.await("the new one seen",
		func(r report.Report) bool { return len(r.Certificates) == 3 && r.Certificates[1].Issuer == "R12" })
	if r.Condition().Reason != report.Serving {
		t.Errorf("the state is %s", r.Condition().Reason)
	}
	s.awaitLog("the certificate that the API server presents on " + vip + ":6443 for " + apiName +
		" was renewed and is valid until ")
	if n := strings.Count(s.log.String(), "event=certificate"); n != 2 {
		t.Errorf("%d lines about certificates", n)
	}
	s.stop()
}
