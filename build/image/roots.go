// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"runtime/debug"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// rootsModule contains Mozilla's root certificates as data. go.sum pins it, whereas a
// package of the distribution would differ between machines.
const rootsModule = "golang.org/x/crypto/x509roots/fallback"

// Roots returns the CA certificates of the image, as PEM, each after its subject.
//
// Roots that Mozilla trusts with a constraint (only certificates that were issued
// before a date) are left out. A PEM file cannot express the constraint, so more
// certificates than Mozilla's would be trusted.
func Roots() ([]byte, error) {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		certificate, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			return nil, fmt.Errorf("cannot parse a root certificate of %s: %w", rootsModule, err)
		}
		fmt.Fprintf(&all, "# %s\n", certificate.Subject)
		if err := pem.Encode(&all, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return all.Bytes(), nil
}

// RootsModule returns the module, and its version, that Roots come from.
func RootsModule() (debug.Module, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return debug.Module{},
			errors.New("cannot find the version of the root certificates: this program was built without module information")
	}
	for _, m := range info.Deps {
		if m.Path == rootsModule {
			return *m, nil
		}
	}
	return debug.Module{}, fmt.Errorf("cannot find the version of the root certificates: this program has no module %s",
		rootsModule)
}

func rootsLayer() (v1.Layer, error) {
	data, err := Roots()
	if err != nil {
		return nil, err
	}
	return newLayer(file{path: CertificatesPath, mode: 0o644, data: data})
}
