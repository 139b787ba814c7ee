// SPDX-License-Identifier: Apache-2.0

package certificate_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/certificate"
)

// fakeOC is oc with a Secret and an APIServer in files. It keeps the patch.
const fakeOC = `#!/bin/sh
cd "$FAKE"
case "$*" in
"get secret api-certificate "*tls*crt*) cat tls.crt.base64 ;;
"get secret api-certificate "*tls*key*) cat tls.key.base64 ;;
"get apiserver cluster "*) cat apiserver ;;
"patch apiserver cluster --type=json "*) echo "$5" >patch ;;
*) echo "unexpected: $*" >&2; exit 1 ;;
esac
`

// issuer issues the certificates of the test.
type issuer struct {
	root *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// create returns a certificate of the CA, or a new CA without one.
func create(t *testing.T, template *x509.Certificate, key *ecdsa.PrivateKey, ca *issuer) *x509.Certificate {
	t.Helper()
	if ca == nil {
		ca = &issuer{template, key}
	}
	template.SerialNumber = big.NewInt(1)
	der, err := x509.CreateCertificate(rand.Reader, template, ca.root, key.Public(), ca.key)
	if err != nil {
		t.Fatal(err)
	}
	created, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func newIssuer(t *testing.T) issuer {
	t.Helper()
	key := newKey(t)
	return issuer{create(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "test root"}, NotBefore: time.Now().Add(-48 * time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, key, nil), key}
}

func (i issuer) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.root.Raw}))
}

// secret returns tls.crt and tls.key.
func (i issuer) secret(t *testing.T, end time.Time, names ...string) (chain, key string) {
	t.Helper()
	private := newKey(t)
	leaf := create(t, &x509.Certificate{
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: end, DNSNames: names,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, private, &i)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Raw})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// runSwitch runs the script on a cluster with this Secret and APIServer, and returns the patch.
func runSwitch(t *testing.T, root, chain, key, apiServer string, args ...string) (out, patch string, ok bool) {
	t.Helper()
	files, err := certificate.Files(request())
	if err != nil {
		t.Fatal(err)
	}
	return runSwitchOf(t, files, root, chain, key, apiServer, args...)
}

// runSwitchOf runs the script beside these files.
func runSwitchOf(
	t *testing.T, files []certificate.File, root, chain, key, apiServer string, args ...string,
) (out, patch string, ok bool) {
	t.Helper()
	dir := t.TempDir()
	files = append(files,
		certificate.File{Path: "bin/oc", Text: []byte(fakeOC)},
		certificate.File{Path: "tls.crt.base64", Text: []byte(base64.StdEncoding.EncodeToString([]byte(chain)))},
		certificate.File{Path: "tls.key.base64", Text: []byte(base64.StdEncoding.EncodeToString([]byte(key)))},
		certificate.File{Path: "apiserver", Text: []byte(apiServer)}, certificate.File{Path: "root.pem", Text: []byte(root)},
	)
	for _, f := range files {
		path := filepath.Join(dir, f.Path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, f.Text, 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{filepath.Join(dir, certificate.SwitchFile)}, args...)...)
	cmd.Env = []string{
		"PATH=" + filepath.Join(dir, "bin") + ":/usr/bin:/bin", "FAKE=" + dir, "TMPDIR=" + dir,
		"SSL_CERT_FILE=" + filepath.Join(dir, "root.pem"), "SSL_CERT_DIR=" + dir,
	}
	text, runErr := cmd.CombinedOutput()
	var exit *exec.ExitError
	if runErr != nil && !errors.As(runErr, &exit) {
		t.Fatal(runErr)
	}
	written, err := os.ReadFile(filepath.Join(dir, "patch"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text), strings.TrimPrefix(strings.TrimSpace(string(written)), "--patch="), runErr == nil
}

// TestSwitch: the script changes the APIServer only with a usable Secret, and keeps other entries.
func TestSwitch(t *testing.T) {
	t.Parallel()
	ca, other := newIssuer(t), newIssuer(t)
	later := time.Now().Add(30 * time.Minute)
	chain, key := ca.secret(t, later, "api.example.com", "kube.example.com")
	_, anotherKey := ca.secret(t, later, "api.example.com")
	expired, expiredKey := ca.secret(t, time.Now().Add(-time.Hour), "api.example.com", "kube.example.com")
	lacking, lackingKey := ca.secret(t, later, "api.example.com")
	internal, internalKey := ca.secret(t, later, "api.example.com", "kube.example.com", "api-int.example.com")
	const (
		test  = `[{"op":"test","path":"/metadata/resourceVersion","value":"7"},`
		entry = `{"names":["api.example.com","kube.example.com"],"servingCertificate":{"name":"api-certificate"}}`
		list  = `"path":"/spec/servingCerts/namedCertificates/`
	)
	var ten strings.Builder
	for i := range 10 {
		ten.WriteString("other" + strconv.Itoa(i) + " other" + strconv.Itoa(i) + ".example.com\n")
	}
	for name, c := range map[string]struct {
		root, chain, key, apiServer string
		out, patch                  string
		args                        []string
	}{
		"no entry": {
			ca.pem(), chain, key, "7\n", "",
			test + `{"op":"add","path":"/spec/servingCerts","value":{"namedCertificates":[` + entry + `]}}]`, nil,
		},
		"another entry": {
			ca.pem(), chain, key, "7\nother a.example.com\n", "", test + `{"op":"add",` + list + `-","value":` + entry + `}]`, nil,
		},
		"an entry with other names": {
			ca.pem(), chain, key, "7\nother a.example.com\napi-certificate api.example.com\n", "",
			test + `{"op":"replace",` + list + `1","value":` + entry + `}]`, nil,
		},
		"the same entry": {
			ca.pem(), chain, key, "7\napi-certificate api.example.com kube.example.com\n", "already has the entry", "", nil,
		},
		"check only":      {ca.pem(), chain, key, "7\n", "can be named", "", []string{"check"}},
		"no Secret":       {ca.pem(), "", "", "7\n", "has no tls.crt", "", nil},
		"no key":          {ca.pem(), chain, "", "7\n", "has no tls.key", "", nil},
		"another key":     {ca.pem(), chain, anotherKey, "7\n", "is not of its certificate", "", nil},
		"no certificate":  {ca.pem(), "text", key, "7\n", "is not a certificate", "", nil},
		"expired":         {ca.pem(), expired, expiredKey, "7\n", "has expired", "", nil},
		"a name less":     {ca.pem(), lacking, lackingKey, "7\n", "lacks the name kube.example.com", "", nil},
		"api-int":         {ca.pem(), internal, internalKey, "7\n", "contains api-int", "", nil},
		"an unknown CA":   {other.pem(), chain, key, "7\n", "does not verify", "", nil},
		"eleven entries":  {ca.pem(), chain, key, "7\n" + ten.String(), "would have 11 entries", "", nil},
		"the name twice":  {ca.pem(), chain, key, "7\nother kube.example.com\n", "other already has the name kube.", "", nil},
		"an unknown word": {ca.pem(), chain, key, "7\n", "usage", "", []string{"apply"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, patch, ok := runSwitch(t, c.root, c.chain, c.key, c.apiServer, c.args...)
			refused := strings.Contains(out, "switch.sh: ")
			if !strings.Contains(out, c.out) || patch != c.patch || ok == refused {
				t.Errorf("%t, patch %s, want %s\n%s", ok, patch, c.patch, out)
			}
			want := c.patch != "" || name == "the same entry" || name == "check only"
			if ok != want {
				t.Errorf("success: %t, want %t", ok, want)
			}
		})
	}
}

// TestSwitchReadsFormattedFiles: other programs write the names without quotes, or deeper. A file without names adds
// no entry.
func TestSwitchReadsFormattedFiles(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	chain, key := ca.secret(t, time.Now().Add(30*time.Minute), "api.example.com", "kube.example.com")
	for name, c := range map[string]struct{ old, with, want string }{
		"unquoted": {`"`, "", `"names":["api.example.com","kube.example.com"]`},
		"indented": {`  - "`, `    - "`, `"names":["api.example.com","kube.example.com"]`},
		"no names": {"  dnsNames:", "  names:", "has no secretName or no dnsNames"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files, err := certificate.Files(request())
			if err != nil {
				t.Fatal(err)
			}
			for i := range files {
				if strings.HasSuffix(files[i].Path, "certificate.yaml") {
					files[i].Text = []byte(strings.ReplaceAll(string(files[i].Text), c.old, c.with))
				}
			}
			out, patch, _ := runSwitchOf(t, files, ca.pem(), chain, key, "7\n")
			if !strings.Contains(out+patch, c.want) {
				t.Errorf("no %q in %s%s", c.want, out, patch)
			}
		})
	}
}
