// SPDX-License-Identifier: Apache-2.0

package build_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeKeys writes a key pair on a curve, in PEM form.
func writeKeys(t *testing.T, curve elliptic.Curve) (key *ecdsa.PrivateKey, private, public string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	must(t, err)
	write := func(name, kind string, der []byte, err error) string {
		must(t, err)
		path := filepath.Join(t.TempDir(), name)
		must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	private = write("key.pem", "PRIVATE KEY", der, err)
	der, err = x509.MarshalPKIXPublicKey(&key.PublicKey)
	public = write("key.pub", "PUBLIC KEY", der, err)
	return key, private, public
}

// TestSignature: `make sign` writes what cosign sign-blob does with a key, and `make verify`
// rejects another key, a changed list and a changed file.
func TestSignature(t *testing.T) {
	t.Parallel()
	key, private, public := writeKeys(t, elliptic.P256())
	_, otherCurve, _ := writeKeys(t, elliptic.P384())
	_, _, otherPublic := writeKeys(t, elliptic.P256())
	dist := t.TempDir()
	file, sums := filepath.Join(dist, "oc-http01-linux-amd64"), filepath.Join(dist, "SHA256SUMS")
	must(t, os.WriteFile(file, []byte("program"), 0o600))
	list := succeed(t, dist, "sha256sum", filepath.Base(file))

	expectFailure := func(want string, args ...string) {
		t.Helper()
		out, err := admin(t, nil, append(args, "DIST="+dist)...)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%q: %v, want a failure with %q:\n%s", args, err, want, out)
		}
	}
	expectFailure("run make release first", "sign", "KEY="+private)
	must(t, os.WriteFile(sums, []byte(list), 0o600))
	expectFailure("KEY=key.pem is missing", "sign")
	expectFailure("P-256", "sign", "KEY="+otherCurve)
	if out, err := admin(t, nil, "sign", "KEY="+private, "DIST="+dist); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	expectFailure("KEY=import-cosign.key is missing", "sign-image")
	expectFailure("PUSH=quay.io:443/a has no tag", "sign-image", "KEY=k", "PUSH=quay.io:443/a")
	expectFailure("run make release first", "sign-image", "KEY=k", "PUSH=quay.io/a:v1")

	text, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS.sig"))
	must(t, err)
	signature, err := base64.StdEncoding.Strict().DecodeString(string(text))
	must(t, err)
	digest := sha256.Sum256([]byte(list))
	if !ecdsa.VerifyASN1(&key.PublicKey, digest[:], signature) {
		t.Error("Go's library does not accept the signature")
	}

	verify := []string{"verify", "PUBLIC_KEY=" + public}
	if out, err := admin(t, nil, append(verify, "DIST="+dist)...); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	expectFailure("Verif", "verify", "PUBLIC_KEY="+otherPublic)
	must(t, os.WriteFile(file, []byte("changed"), 0o600))
	expectFailure("FAILED", verify...)
	must(t, os.WriteFile(sums, []byte(list+"\n"), 0o600))
	expectFailure("Verif", verify...)
}
