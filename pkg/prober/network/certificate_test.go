// SPDX-License-Identifier: Apache-2.0

package network_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

// startTLSServer presents a certificate with these names until the test ends.
func startTLSServer(t *testing.T, names []string) netip.AddrPort {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: names, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{
		ReadHeaderTimeout: testTimeout, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{
			Certificate: [][]byte{der},
			PrivateKey:  key,
		}}},
	}
	go func() { _ = s.ServeTLS(l, "", "") }()
	t.Cleanup(func() { _ = s.Close() })
	return netip.MustParseAddrPort(l.Addr().String())
}

// TestHostileCertificate: names that fill the largest handshake, of bytes that JSON
// encodes as six, do not reach the client, and do not end the child.
func TestHostileCertificate(t *testing.T) {
	c := startClient(t)
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("%s%d", strings.Repeat("\x01", 2500), i))
	}
	hostile, plain := startTLSServer(t, names), startTLSServer(t, []string{"api.lab.test"})
	presented := c.Certificates(withTimeout(t, testTimeout), []protocol.CertificateRequest{
		{Addr: hostile, Name: "api.lab.test"}, {Addr: plain, Name: "api.lab.test"}, {Addr: plain},
	})
	for _, p := range presented {
		if p.Err != nil {
			t.Fatalf("%v: %v", p.CertificateRequest, p.Err)
		}
	}
	for _, name := range presented[0].Certificate.Names {
		if len(name) > 512 || strings.ContainsRune(name, '\x01') {
			t.Fatalf("a name of %d bytes: %.20q", len(name), name)
		}
	}
	if presented[0].Certificate.CoversName || !presented[1].Certificate.CoversName || presented[2].Certificate.CoversName {
		t.Errorf("the name is found at %+v", presented)
	}
}
