// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// apiPort is the port of the API server on every address of a control-plane node.
const apiPort = "6443"

// internalPrefix begins the API's name for the nodes of a cluster.
const internalPrefix = "api-int."

// APIServer replaces the part of kube-apiserver that clients contact first: the selection
// of a certificate by name and address. The real one needs etcd and a cluster that
// configures its certificates.
type APIServer struct {
	stop func() error

	internal *tls.Certificate // of the cluster's own CA, for api-int
	replaced atomic.Bool

	mu      sync.Mutex
	present func(name string, local netip.Addr) *tls.Certificate
}

// ServeAPI starts an API server on the node. The caller must Close it.
func (n *Node) ServeAPI(ctx context.Context, present func(name string, local netip.Addr) *tls.Certificate) (*APIServer,
	error,
) {
	return ServeAPI(ctx, n.Listen, present)
}

// ServeAPI starts an API server on a listener of listen. The caller must Close it.
func ServeAPI(ctx context.Context, listen func(ctx context.Context, address string) (net.Listener, error),
	present func(name string, local netip.Addr) *tls.Certificate,
) (*APIServer, error) {
	listener, err := listen(ctx, ":"+apiPort)
	if err != nil {
		return nil, err
	}
	internal, err := Issue("kube-apiserver-lb-signer", 30*24*time.Hour, 20*24*time.Hour, internalPrefix+"lab.test")
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	a := &APIServer{present: present, internal: internal}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: a.certificate}
	a.stop = Serve(listener, config, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("ok"))
	}))
	return a, nil
}

// Present replaces the function that selects the certificate.
func (a *APIServer) Present(present func(name string, local netip.Addr) *tls.Certificate) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.present = present
}

// ReplaceInternal makes the server present the certificates of Present for api-int too, as when
// namedCertificates lists that name. Otherwise it presents one of the cluster's own CA for it.
func (a *APIServer) ReplaceInternal(on bool) { a.replaced.Store(on) }

// Close stops the server.
func (a *APIServer) Close() error { return a.stop() }

func (a *APIServer) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	local, err := netip.ParseAddrPort(hello.Conn.LocalAddr().String())
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(hello.ServerName, internalPrefix) && !a.replaced.Load() {
		return a.internal, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.present(hello.ServerName, local.Addr().Unmap().WithZone("")); c != nil {
		return c, nil
	}
	return nil, errors.New("no certificate")
}
