// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Push pushes an image or an index with all its images into a repository and returns the
// reference by digest.
func (r *Registry) Push(ctx context.Context, repository string, content remote.Taggable) (string, error) {
	manifest, err := content.RawManifest()
	if err != nil {
		return "", fmt.Errorf("read the manifest: %w", err)
	}
	sum, _, err := v1.SHA256(bytes.NewReader(manifest))
	if err != nil {
		return "", fmt.Errorf("compute the digest of the manifest: %w", err)
	}
	reference, err := name.NewDigest(r.Name + "/" + repository + "@" + sum.String())
	if err != nil {
		return "", fmt.Errorf("build the reference: %w", err)
	}
	transport := r.transport()
	defer transport.CloseIdleConnections()
	err = remote.Push(reference, content, remote.WithContext(ctx), remote.WithTransport(authorized{transport, r.owner}))
	if err != nil {
		return "", fmt.Errorf("push %s: %w", reference, err)
	}
	return reference.String(), nil
}

// authorized adds credentials to every request, including the first one, so that no request
// of the owner is counted.
type authorized struct {
	http.RoundTripper

	as account
}

func (a authorized) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.SetBasicAuth(a.as.user, a.as.password)
	return a.RoundTripper.RoundTrip(request)
}

// transport connects to the registry from its own node, whatever the request's URL.
func (r *Registry) transport() *http.Transport {
	at := net.JoinHostPort(r.node.Addresses.V4.String(), port)
	return &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return r.node.Dial(ctx, network, at)
		},
		TLSClientConfig:       &tls.Config{RootCAs: r.ca.Pool(), MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   headTimeout,
		ResponseHeaderTimeout: wholeTimeout,
	}
}
