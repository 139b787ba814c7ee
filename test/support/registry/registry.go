// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

const (
	port = "443" // references may omit it

	headTimeout = 10 * time.Second
	// wholeTimeout limits one request with its answer, such as a binary on a busy machine.
	wholeTimeout = 2 * time.Minute
)

// Registry stores images in memory and serves them on one node. Its methods may be called
// from several goroutines.
type Registry struct {
	Name string // host name in references, such as registry.lab.test

	node    *lab.Node
	content http.Handler
	tls     *tls.Config
	ca      *lab.Authority
	nodes   account // pulls
	owner   account // pushes, and is not counted

	requests atomic.Int64 // of others than the owner

	stalled     atomic.Bool
	denied      atomic.Bool
	switching   sync.Mutex
	closeServer func() error // stops the web server; nil while refused
}

// account holds the credentials of HTTP basic authentication.
type account struct{ user, password string }

// New starts a registry on the lab's internet node and publishes its name.
func New(ctx context.Context, l *lab.Lab, label string) (*Registry, error) {
	node := l.Internet.Node
	r := &Registry{
		Name:    label + "." + l.Domain,
		node:    node,
		content: registry.New(registry.Logger(log.New(io.Discard, "", 0))),
		nodes:   account{"nodes", rand.Text()},
		owner:   account{"owner", rand.Text()},
	}
	var err error
	if r.ca, err = lab.NewAuthority("CA of " + r.Name); err != nil {
		return nil, err
	}
	identity, err := r.ca.Issue(lab.ServerCertificate{Names: []string{r.Name}})
	if err != nil {
		return nil, err
	}
	pair, err := identity.TLS()
	if err != nil {
		return nil, err
	}
	r.tls = &tls.Config{Certificates: []tls.Certificate{*pair}, MinVersion: tls.VersionTLS12}
	if err := l.Internet.SetName(ctx, r.Name, node.Addresses); err != nil {
		return nil, fmt.Errorf("publish the registry's name: %w", err)
	}
	return r, r.Up(ctx)
}

// CA returns the certificate in PEM that clients must trust.
func (r *Registry) CA() string { return string(r.ca.Certificate()) }

// TrustPath returns the path where podman reads the certificate (containers-certs.d(5)).
// The machine-config-daemon also writes CAs of registries there.
func (r *Registry) TrustPath() string { return "/etc/docker/certs.d/" + r.Name + "/ca.crt" }

// Authfile returns a node's /var/lib/kubelet/config.json with the credentials for pulls
// (containers-auth.json(5)).
func (r *Registry) Authfile() (string, error) { return r.authfile(r.nodes) }

// OwnerAuthfile is Authfile with the credentials for pushes.
func (r *Registry) OwnerAuthfile() (string, error) { return r.authfile(r.owner) }

func (r *Registry) authfile(a account) (string, error) {
	type entry struct {
		Auth string `json:"auth"`
	}
	text, err := json.Marshal(map[string]map[string]entry{"auths": {
		r.Name: {base64.StdEncoding.EncodeToString([]byte(a.user + ":" + a.password))},
	}})
	if err != nil {
		return "", fmt.Errorf("encode the registry's credentials: %w", err)
	}
	return string(text), nil
}

// Close stops the registry.
func (r *Registry) Close() error {
	r.switching.Lock()
	defer r.switching.Unlock()
	return r.stop()
}

func (r *Registry) start(ctx context.Context) error {
	listener, err := r.node.Listen(ctx, ":"+port)
	if err != nil {
		return fmt.Errorf("start the registry: %w", err)
	}
	r.closeServer = lab.Serve(listener, r.tls, http.HandlerFunc(r.serve))
	return nil
}

// stop stops the server and closes every connection.
func (r *Registry) stop() error {
	if r.closeServer == nil {
		return nil
	}
	err := r.closeServer()
	r.closeServer = nil
	return err
}
