// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/http01-proxyd/http01-proxyd/build/image"
)

// TestRoots reads the file as a TLS client does.
func TestRoots(t *testing.T) {
	t.Parallel()
	text := must1(image.Roots())(t)
	var got, want []string
	now := make(map[string]bool)
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		certificate := must1(x509.ParseCertificate(block.Bytes))(t)
		if !certificate.IsCA {
			t.Errorf("%s is not a CA's", certificate.Subject)
		}
		if !strings.Contains(string(text), "# "+certificate.Subject.String()+"\n-----BEGIN CERTIFICATE-----\n") {
			t.Errorf("%s is not named above it", certificate.Subject)
		}
		if now[string(block.Bytes)] {
			t.Errorf("%s is there twice", certificate.Subject)
		}
		now[string(block.Bytes)] = true
		got = append(got, string(block.Bytes))
	}
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			want = append(want, string(root.Certificate))
		}
	}
	// Mozilla trusts some 130 roots; a file of a few would be a broken one.
	if len(got) < 100 || !slices.Equal(got, want) {
		t.Errorf("the file has %d certificates, and Mozilla trusts %d without a condition", len(got), len(want))
	}
	if !x509.NewCertPool().AppendCertsFromPEM(text) {
		t.Error("crypto/x509 finds no certificate in the file")
	}
}
