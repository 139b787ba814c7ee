// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http" //nolint:depguard // not the host binary: errors of the registry client
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// PushOptions configure the connection to a registry. The zero value uses TLS and the
// default keychain: ~/.docker/config.json, else the file of $REGISTRY_AUTH_FILE, else
// podman's auth.json.
type PushOptions struct {
	// PlainHTTP allows a registry without TLS. Loopback and private addresses are
	// always allowed.
	PlainHTTP bool
	// Keychain provides the credentials; nil selects the default keychain.
	Keychain authn.Keychain
}

// Push uploads the image with all platforms to the registry in ref (REGISTRY/NAME[:TAG]), and
// returns its reference by digest. Without a tag the image is available by digest only, and a
// registry may delete it in a garbage collection. Push does not upload content that the
// registry already stores.
func Push(ctx context.Context, ref string, index v1.ImageIndex, o PushOptions) (string, error) {
	digest, err := index.Digest()
	if err != nil {
		return "", fmt.Errorf("cannot push the image to %s: %w", ref, err)
	}
	if err := CheckReference(ref); err != nil {
		return "", fmt.Errorf("cannot push the image: %w", err)
	}
	target, err := o.parse(ref, digest)
	if err != nil {
		return "", fmt.Errorf("cannot push the image: %w", err)
	}
	keychain := o.Keychain
	if keychain == nil {
		keychain = authn.DefaultKeychain
	}
	if err := remote.WriteIndex(target, index, remote.WithContext(ctx),
		remote.WithAuthFromKeychain(keychain)); err != nil {
		return "", fmt.Errorf("cannot push the image to %s: %w%s", target, err, remediation(err, target))
	}
	return target.Context().Digest(digest.String()).String(), nil
}

// remediation returns the remediation for common errors of a registry.
func remediation(err error, target name.Reference) string {
	const unauthorized, forbidden = 401, 403
	var (
		answer    *transport.Error
		untrusted x509.UnknownAuthorityError
	)
	switch {
	case errors.As(err, &answer) && slices.Contains([]int{unauthorized, forbidden}, answer.StatusCode):
		return "; log in with permission to push: podman login " + target.Context().RegistryStr()
	case errors.As(err, &untrusted):
		return "; set SSL_CERT_FILE=ca.pem in the environment, with the CA of the registry's certificate"
	case errors.Is(err, http.ErrSchemeMismatch):
		return "; for a registry without TLS, use PLAIN_HTTP=1 of make or --plain-http"
	}
	return ""
}

// CheckReference reports whether an image can be pushed to ref. The reference must
// begin with the registry, as for rendering MachineConfigs: without one the image would
// be pushed to Docker Hub.
func CheckReference(ref string) error {
	host, _, found := strings.Cut(ref, "/")
	if !found || host != "localhost" && !strings.ContainsAny(host, ".:") {
		return fmt.Errorf("%q does not begin with a registry: %s", ref, referenceForm)
	}
	_, err := PushOptions{}.parse(ref, v1.Hash{})
	return err
}

const referenceForm = "name it as REGISTRY/NAME[:TAG], as in registry.example.com/http01-proxyd:latest"

// parse reads a reference with a tag. For a reference without a tag it uses the image's
// digest.
func (o PushOptions) parse(ref string, digest v1.Hash) (name.Reference, error) {
	var options []name.Option
	if o.PlainHTTP {
		options = append(options, name.Insecure)
	}
	if repository, err := name.NewRepository(ref, options...); err == nil {
		return repository.Digest(digest.String()), nil
	}
	tag, err := name.NewTag(ref, options...)
	if err != nil {
		return nil, fmt.Errorf("%q is not a reference for a push (%w): %s", ref, err, referenceForm)
	}
	return tag, nil
}
