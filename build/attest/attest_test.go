// SPDX-License-Identifier: Apache-2.0

package attest_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/http01-proxyd/http01-proxyd/build/attest"
)

const (
	commit     = "1c991bceaeb912893ea88d99eb8b41475d194ed3"
	imageHex   = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	programHex = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
	// bill is a bill of materials of one program and the image. The checksum of the module is the example
	// of in-toto's specification.
	bill = `{
  "bomFormat": "CycloneDX",
  "specVersion": "1.6",
  "metadata": {"component": {"name": "http01-proxyd", "type": "application", "version": "v1.2.3",
    "properties": [{"name": "go:vcs.revision", "value": "` + commit + `"}]}},
  "components": [
    {"name": "http01-proxyd-linux-amd64", "type": "application"},
    {"name": "a", "type": "library", "purl": "pkg:golang/example.com/a@v1.0.0",
      "properties": [{"name": "go:sum", "value": "h1:Khu2En+0gcYPZ2kuIihfswbzxv/mIHXgzPZ018Oty48="}]},
    {"name": "stdlib", "type": "library", "purl": "pkg:golang/stdlib@1.26.8",
      "properties": [{"name": "go:toolchain", "value": "go1.26.8"}]},
    {"name": "http01-proxyd", "type": "container", "version": "sha256:` + imageHex + `",
      "purl": "pkg:oci/http01-proxyd@sha256%3A` + imageHex + `?repository_url=registry.example%3A5000/some/http01-proxyd"}
  ]
}`
)

// release writes a release with a bill of materials, and returns its folder.
func release(t *testing.T, bom string) string {
	t.Helper()
	dir := t.TempDir()
	sums := fmt.Sprintf("%s  http01-proxyd-linux-amd64\n%x  sbom.cdx.json\n", programHex, sha256.Sum256([]byte(bom)))
	must(t, os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sums), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "sbom.cdx.json"), []byte(bom), 0o600))
	return dir
}

// verifier judges signatures for DSSE's own library.
type verifier struct{ key *ecdsa.PublicKey }

func (v verifier) Verify(_ context.Context, data, sig []byte) error {
	if digest := sha256.Sum256(data); !ecdsa.VerifyASN1(v.key, digest[:], sig) {
		return errors.New("the signature is wrong")
	}
	return nil
}

func (v verifier) KeyID() (string, error) { return "", nil }

func (v verifier) Public() crypto.PublicKey { return v.key }

// TestStatements lets the libraries of DSSE and in-toto judge the signed statements.
func TestStatements(t *testing.T) {
	t.Parallel()
	statements, err := attest.Statements(release(t, bill))
	must(t, err)
	provenance, sbom := statements["provenance.intoto.jsonl"], statements["sbom.intoto.jsonl"]
	if len(statements) != 2 || provenance == nil || sbom == nil {
		t.Fatalf("got %d statements, want provenance and sbom", len(statements))
	}
	var got slsa.Provenance
	predicateOf(t, provenance, "https://slsa.dev/provenance/v1", &got)
	must(t, got.Validate())
	definition := got.GetBuildDefinition()
	if diff := cmp.Diff(map[string]any{
		"source":           "git+https://github.com/http01-proxyd/http01-proxyd@refs/tags/v1.2.3",
		"VERSION":          "v1.2.3",
		"IMAGE_REPOSITORY": "registry.example:5000/some/http01-proxyd",
	}, definition.GetExternalParameters().AsMap()); diff != "" {
		t.Errorf("external parameters, -want +got:\n%s", diff)
	}
	var inputs []string
	for _, d := range definition.GetResolvedDependencies() {
		inputs = append(inputs, fmt.Sprint(d.GetName(), " ", d.GetUri(), " ", d.GetDigest()))
	}
	if diff := cmp.Diff([]string{
		" git+https://github.com/http01-proxyd/http01-proxyd@refs/tags/v1.2.3 map[gitCommit:" + commit + "]",
		" pkg:golang/example.com/a@v1.0.0 map[dirHash:2a1bb6127fb481c60f67692e22285fb306f3c6ffe62075e0ccf674d7c3adcb8f]",
		"go1.26.8 pkg:golang/stdlib@1.26.8 map[]",
	}, inputs); diff != "" {
		t.Errorf("resolved dependencies, -want +got:\n%s", diff)
	}
	var bom json.RawMessage
	predicateOf(t, sbom, "https://cyclonedx.org/bom", &bom)
	var gotBOM, wantBOM any
	must(t, json.Unmarshal(bom, &gotBOM))
	must(t, json.Unmarshal([]byte(bill), &wantBOM))
	if diff := cmp.Diff(wantBOM, gotBOM); diff != "" {
		t.Errorf("bill of materials, -want +got:\n%s", diff)
	}
}

// predicateOf checks a statement with its signed envelope, and reads its predicate.
func predicateOf(t *testing.T, text []byte, kind string, into any) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	signed, err := attest.Sign(text, key)
	must(t, err)
	if strings.Count(string(signed), "\n") != 1 {
		t.Errorf("the envelope is not one line:\n%s", signed)
	}
	var envelope dsse.Envelope
	must(t, json.Unmarshal(signed, &envelope))
	judge, err := dsse.NewEnvelopeVerifier(verifier{&key.PublicKey})
	must(t, err)
	if _, err := judge.Verify(t.Context(), &envelope); err != nil {
		t.Errorf("DSSE's library: %v", err)
	}
	changed := envelope
	changed.PayloadType = "text/plain"
	if _, err := judge.Verify(t.Context(), &changed); err == nil {
		t.Error("DSSE's library accepts another type of payload")
	}

	var statement intoto.Statement
	must(t, protojson.Unmarshal(text, &statement))
	must(t, statement.Validate())
	if statement.GetType() != intoto.StatementTypeUri || statement.GetPredicateType() != kind {
		t.Errorf("the types are %q and %q", statement.GetType(), statement.GetPredicateType())
	}
	var subjects []string
	for _, s := range statement.GetSubject() {
		subjects = append(subjects, s.GetName()+" "+s.GetDigest()["sha256"])
	}
	if diff := cmp.Diff([]string{
		"http01-proxyd-linux-amd64 " + programHex,
		"sbom.cdx.json " + fmt.Sprintf("%x", sha256.Sum256([]byte(bill))),
		"registry.example:5000/some/http01-proxyd " + imageHex,
	}, subjects); diff != "" {
		t.Errorf("subjects, -want +got:\n%s", diff)
	}
	predicate, err := protojson.Marshal(statement.GetPredicate())
	must(t, err)
	if message, ok := into.(*slsa.Provenance); ok {
		must(t, protojson.Unmarshal(predicate, message))
		return
	}
	must(t, json.Unmarshal(predicate, into))
}

func TestStatementsRefuses(t *testing.T) {
	t.Parallel()
	changed := release(t, bill)
	must(t, os.WriteFile(filepath.Join(changed, "sbom.cdx.json"), []byte(bill+" "), 0o600))
	noSums := release(t, bill)
	must(t, os.Remove(filepath.Join(noSums, "SHA256SUMS")))
	replaced := func(old, replacement string) string { return release(t, strings.Replace(bill, old, replacement, 1)) }
	for name, tt := range map[string]struct{ dir, want string }{
		"no release":          {noSums, "SHA256SUMS: no such file"},
		"another bill":        {changed, "sbom.cdx.json is not the file of SHA256SUMS; run make release"},
		"no bill":             {release(t, "{"), "sbom.cdx.json: "},
		"an empty bill":       {release(t, "{}"), "describes no release"},
		"uncommitted changes": {replaced(commit, commit+"-dirty"), "-dirty\", which is no commit: commit all changes"},
		"no commit":           {replaced(commit, ""), "which is no commit"},
		"no image":            {replaced(`"container"`, `"data"`), "has no image; run make release"},
		"a wrong checksum":    {replaced("h1:Khu", "h1:!"), "the checksum of pkg:golang/example.com/a@v1.0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := attest.Statements(tt.dir); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestReadKey(t *testing.T) {
	t.Parallel()
	write := func(curve elliptic.Curve, kind string, encode func(*ecdsa.PrivateKey) ([]byte, error)) string {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		must(t, err)
		der, err := encode(key)
		must(t, err)
		file := filepath.Join(t.TempDir(), "key.pem")
		must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return file
	}
	pkcs8 := func(key *ecdsa.PrivateKey) ([]byte, error) { return x509.MarshalPKCS8PrivateKey(key) }
	public := func(key *ecdsa.PrivateKey) ([]byte, error) { return x509.MarshalPKIXPublicKey(&key.PublicKey) }
	empty := filepath.Join(t.TempDir(), "empty")
	must(t, os.WriteFile(empty, nil, 0o600))
	for name, tt := range map[string]struct{ file, want string }{
		"of openssl ecparam":  {write(elliptic.P256(), "EC PRIVATE KEY", x509.MarshalECPrivateKey), ""},
		"of openssl genpkey":  {write(elliptic.P256(), "PRIVATE KEY", pkcs8), ""},
		"another curve":       {write(elliptic.P384(), "PRIVATE KEY", pkcs8), "is not an unencrypted key on the curve P-256"},
		"the public key":      {write(elliptic.P256(), "PUBLIC KEY", public), "is not an unencrypted key on the curve P-256"},
		"no PEM":              {empty, "is not an unencrypted key on the curve P-256"},
		"a file that is gone": {empty + ".gone", "cannot read the private key: open "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, err := attest.ReadKey(tt.file)
			if got := fmt.Sprint(err); tt.want != "" && !strings.Contains(got, tt.want) || tt.want == "" && key == nil {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
