// SPDX-License-Identifier: Apache-2.0

package machineconfig_test

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
)

// pemKeys returns the two halves of a key in PEM.
func pemKeys[K interface{ Public() P }, P any](t *testing.T, key K, err error) (private, public []byte) {
	t.Helper()
	encode := func(kind string, der []byte, problem error) []byte {
		if err != nil || problem != nil {
			t.Fatal(err, problem)
		}
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	der, failed := x509.MarshalPKCS8PrivateKey(key)
	private = encode("PRIVATE KEY", der, failed)
	der, failed = x509.MarshalPKIXPublicKey(key.Public())
	return private, encode("PUBLIC KEY", der, failed)
}

// TestImagePolicy: the object has the repository of the image, and the key without anything around it.
func TestImagePolicy(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, public := pemKeys(t, key, err)
	for image, scope := range map[string]string{
		"quay.io/a/b@sha256:" + sum:        "quay.io/a/b",
		"registry.example.com:5000/a:v1.2": "registry.example.com:5000/a",
		"docker.io/a:v1":                   "docker.io/library/a", // the expanded form, which the API requires
	} {
		commented := slices.Concat([]byte("# our key\n"), public, []byte("\nend\n"))
		object, err := machineconfig.ImagePolicy(image, machineconfig.Input{Name: "key.pub", Text: commented})
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			APIVersion, Kind string
			Metadata         map[string]string
			Spec             struct {
				Scopes []string
				Policy struct {
					RootOfTrust struct {
						PolicyType string
						PublicKey  struct{ KeyData []byte }
					}
					SignedIdentity map[string]string
				}
			}
		}
		if err := yaml.UnmarshalStrict(object.Text, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{scope}, got.Spec.Scopes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", image, diff)
		}
		// cosign's signatures name no tag.
		if match := got.Spec.Policy.SignedIdentity["matchPolicy"]; match != "MatchRepository" {
			t.Errorf("the signature must match by %q", match)
		}
		if data := got.Spec.Policy.RootOfTrust.PublicKey.KeyData; !bytes.Equal(data, public) {
			t.Errorf("the key is %q", data)
		}
	}
}

// TestPublicKey: keys whose signatures nodes verify are accepted, and mistakes are named.
func TestPublicKey(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	private, public := pemKeys(t, key, err)
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	_, rsaPublic := pemKeys(t, large, err)
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	_, edPublic := pemKeys(t, edwards, err)
	exchange, err := ecdh.X25519().GenerateKey(rand.Reader)
	_, exchangePublic := pemKeys(t, exchange, err)
	block := func(kind string) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte("content")}) }
	for name, tt := range map[string]struct {
		text []byte
		want string // "" for an accepted key
	}{
		"P-256":           {public, ""},
		"RSA":             {rsaPublic, ""},
		"Ed25519":         {edPublic, ""},
		"X25519":          {exchangePublic, "a key of the type *ecdh.PublicKey, but nodes verify signatures of ECDSA"},
		"empty":           {[]byte(" \n"), "is empty"},
		"not PEM":         {[]byte("ecdsa-sha2-nistp256 AAAA"), "contains no key in PEM form"},
		"private":         {private, "contains a private key, which only the signer may have"},
		"both halves":     {slices.Concat(public, private), "contains a private key"},
		"cosign.key":      {block("ENCRYPTED SIGSTORE PRIVATE KEY"), "contains a private key"},
		"with parameters": {slices.Concat(block("EC PARAMETERS"), block("EC PRIVATE KEY")), "contains a private key"},
		"several":         {slices.Concat(public, edPublic), "contains 2 keys or certificates, but a policy has one key"},
		"certificate":     {block("CERTIFICATE"), `contains a "CERTIFICATE", not a "PUBLIC KEY"`},
		"damaged":         {block("PUBLIC KEY"), "the key cannot be read: asn1: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := machineconfig.ImagePolicy(machineconfig.ExampleImage, machineconfig.Input{Name: "key.pub", Text: tt.text})
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), "key.pub: "+tt.want) ||
				!strings.Contains(err.Error(), ": give the public key of the signatures, as ") {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}
