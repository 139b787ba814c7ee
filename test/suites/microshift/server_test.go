// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// Names of MicroShift's signers (its pkg/cmd/init.go).
const (
	externalSigner  = "kube-apiserver-external-signer"
	localhostSigner = "kube-apiserver-localhost-signer"
	serviceSigner   = "kube-apiserver-service-network-signer"
)

const (
	day  = 24 * time.Hour
	year = 365 * day
)

// servingCertificates has the certificates of the API server: MicroShift's three in its order,
// and the administrator's before them. The certificate of the service network is the default.
type servingCertificates struct {
	external, localhost, service []string
	named                        []namedPair
	left                         time.Duration // remaining time of MicroShift's one-year certificates; 0: all but a day
}

// namedPair is an entry of apiServer.namedCertificates. Without names, those in the
// certificate apply.
type namedPair struct {
	names   []string
	cert    string
	key     string
	ignored bool // MicroShift ignores it
}

// reloadable is a certificate that is reloaded from its files.
type reloadable interface {
	dynamiccertificates.Notifier
	dynamiccertificates.ControllerRunner
}

// serveAPI replaces the part of MicroShift's kube-apiserver that clients contact first,
// until the test ends. The code of the real server selects the certificate; the whole
// server needs etcd.
func serveAPI(t *testing.T, n *lab.Node, s servingCertificates) {
	t.Helper()
	dir := t.TempDir()
	own := func(signer string, names []string) (cert, key string) {
		left := s.left
		if left == 0 {
			left = year - day
		}
		now := time.Now()
		return issueCertificate(t, dir, signer, names, now.Add(left-year), now.Add(left))
	}
	var pairs []namedPair
	add := func(signer string, names []string) {
		cert, key := own(signer, names)
		pairs = append(pairs, namedPair{cert: cert, key: key})
	}
	add(externalSigner, s.external)
	add(localhostSigner, s.localhost)
	add(serviceSigner, s.service)
	standard := pairs[2]
	for _, n := range s.named {
		if !n.ignored {
			pairs = append([]namedPair{n}, pairs...)
		}
	}
	serving, err := dynamiccertificates.NewDynamicServingContentFromFiles("serving-cert", standard.cert, standard.key)
	must(t, err)
	var named []dynamiccertificates.SNICertKeyContentProvider
	var follow []reloadable
	for _, p := range pairs {
		one, err := dynamiccertificates.NewDynamicSNIContentFromFiles("sni-serving-cert", p.cert, p.key, p.names...)
		must(t, err)
		named, follow = append(named, one), append(follow, one)
	}
	controller := dynamiccertificates.NewDynamicServingCertificateController(
		&tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}, nil, serving, named, nil)
	must(t, controller.RunOnce())
	// Renewed files are reloaded until the test ends (its pkg/server/secure_serving.go).
	for _, one := range append(follow, serving) {
		one.AddListener(controller)
		go one.Run(t.Context(), 1)
	}
	go controller.Run(1, t.Context().Done())
	listener, err := n.Listen(t.Context(), ":6443")
	must(t, err)
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: controller.GetConfigForClient}
	stop := lab.Serve(listener, config,
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	t.Cleanup(func() { must(t, stop()) })
}

// issueCertificate creates a certificate as MicroShift does: addresses are also DNS names
// (IPAddressesDNSNames of library-go), by which the API server finds a certificate for an
// address.
func issueCertificate(t *testing.T, dir, signer string, names []string, from, until time.Time) (cert, key string) {
	t.Helper()
	ca, err := lab.NewAuthority(signer)
	must(t, err)
	leaf := lab.ServerCertificate{NotBefore: from, NotAfter: until}
	var addresses []string
	for _, name := range names {
		if a, err := netip.ParseAddr(name); err == nil {
			leaf.Addresses = append(leaf.Addresses, a)
			addresses = append(addresses, name)
			continue
		}
		leaf.Names = append(leaf.Names, name)
	}
	leaf.Names = append(leaf.Names, addresses...)
	id, err := ca.Issue(leaf)
	must(t, err)
	base := filepath.Join(dir, fmt.Sprintf("%s-%d", signer, time.Now().UnixNano()))
	cert, key = base+".crt", base+".key"
	must(t, os.WriteFile(cert, id.Chain, 0o600))
	must(t, os.WriteFile(key, id.Key, 0o600))
	return cert, key
}

// presented returns the issuer of the certificate that the API server presents at an
// address for a name.
func (h *host) presented(at, name string) string {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	conn, err := h.node().Dial(ctx, "tcp", net.JoinHostPort(at, "6443"))
	must(h.t, err)
	secure := tls.Client(conn, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	defer secure.Close()
	must(h.t, secure.HandshakeContext(ctx))
	return secure.ConnectionState().PeerCertificates[0].Issuer.CommonName
}
