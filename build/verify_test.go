// SPDX-License-Identifier: Apache-2.0

package build_test

import (
	"bytes"
	"crypto/elliptic"
	"encoding/base64"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// checkVerification runs the commands of docs/verify-a-release.md, word for word apart from the
// version, on a release in dist that the clone in dir built. Changed files must fail.
func checkVerification(t *testing.T, dir, dist string) {
	t.Helper()
	_, private, public := writeKeys(t, elliptic.P256())
	succeed(t, dir, "make", "-f", "build/release.mk", "sign", "attest", "KEY="+private, "DIST="+dist)
	published := filepath.Join(dir, version)
	t.Cleanup(func() { os.RemoveAll(published) }) // the clone makes another release
	for name, data := range files(t, dist) {
		if !strings.Contains(name, "/") {
			must(t, os.MkdirAll(published, 0o755))
			must(t, os.WriteFile(filepath.Join(published, name), []byte(data), 0o600))
		}
	}
	copyFile(t, public, filepath.Join(published, "key.pub"))

	text := string(must1(os.ReadFile("../docs/verify-a-release.md"))(t))
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)\n```sh\n(.*?)\n```\n").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, strings.ReplaceAll(m[1], "v1.2.3", version))
	}
	if len(blocks) != 5 {
		t.Fatalf("the document has %d blocks marked sh, want 5", len(blocks))
	}
	signature, provenance, statement, bundle, reproduce := blocks[0], blocks[1], blocks[2], blocks[3], blocks[4]
	sbom := strings.Replace(provenance, "name=provenance", "name=sbom", 1)
	// expect runs a block, which must succeed or fail, and print the words.
	expect := func(success bool, dir, block string, words ...string) {
		t.Helper()
		out, err := run(t, dir, []string{"ADMIN_PLATFORMS=" + adminPlatform(), "IMAGE_REPOSITORY=" + repository},
			"bash", "-e", "-o", "pipefail", "-c", block)
		if (err == nil) != success {
			t.Errorf("%s\n%v, want success: %v\n%s", block, err, success, out)
		}
		for _, word := range words {
			if !strings.Contains(out, word) {
				t.Errorf("%s\nmissing %q in\n%s", block, word, out)
			}
		}
	}
	// change replaces a published file while check runs.
	change := func(name string, replace func([]byte) []byte, check func()) {
		t.Helper()
		path := filepath.Join(published, name)
		old := must1(os.ReadFile(path))(t)
		changed := replace(bytes.Clone(old))
		if bytes.Equal(old, changed) {
			t.Fatalf("%s is not changed", name)
		}
		must(t, os.WriteFile(path, changed, 0o600))
		check()
		must(t, os.WriteFile(path, old, 0o600))
	}

	commit := strings.TrimSpace(succeed(t, dir, "git", "rev-parse", version+"^{commit}"))
	digest := strings.TrimSpace(string(must1(os.ReadFile(filepath.Join(dist, "image.digest")))(t)))
	program := "http01-proxyd-linux-amd64"
	for _, block := range []string{signature, provenance, sbom} {
		expect(true, published, block, "Verified OK", program+": OK", "sbom.cdx.json: OK")
	}
	expect(true, published, statement, commit, version, repository+"@"+digest)
	expect(true, published, bundle+"\njq .dsseEnvelope.payloadType provenance.bundle.json", "vnd.in-toto+json")
	expect(true, dir, reproduce, program+"                same", "The image is "+repository+"@"+digest,
		"All files of "+version+" are reproduced.")

	lastByte := func(data []byte) []byte { data[len(data)-1] ^= 1; return data }
	change(program, lastByte, func() {
		for _, block := range []string{signature, provenance, sbom} {
			expect(false, published, block, program+": FAILED")
		}
		change("SHA256SUMS", func(data []byte) []byte {
			name := regexp.MustCompile(`(?m)^[0-9a-f]{64}(  sbom\.cdx\.json)$`)
			return append(name.ReplaceAll(data, []byte(strings.Repeat("0", 64)+"$1")), strings.Repeat("0", 64)+"  more\n"...)
		}, func() {
			expect(false, published, signature, "erification")
			expect(false, dir, reproduce, "http01-proxyd-linux-arm64                same",
				program+"                DIFFERENT: the published file is not the file of SHA256SUMS",
				"sbom.cdx.json                            DIFFERENT: this build is ",
				"more                                     DIFFERENT: not built",
				"make reproduce: 3 files of "+version+" differ from this build.")
		})
	})
	change("provenance.intoto.jsonl", func(data []byte) []byte {
		encode := base64.StdEncoding.EncodeToString
		statement := must1(os.ReadFile(filepath.Join(published, "provenance.json")))(t)
		other := strings.Replace(string(statement), commit, strings.Repeat("0", 40), 1)
		return bytes.Replace(data, []byte(encode(statement)), []byte(encode([]byte(other))), 1)
	}, func() { expect(false, published, provenance, "erification") })
	_, _, otherPublic := writeKeys(t, elliptic.P256())
	change("key.pub", func([]byte) []byte { return must1(os.ReadFile(otherPublic))(t) }, func() {
		expect(false, published, signature, "erification")
		expect(false, published, provenance, "erification")
	})
}

// TestReproduceRefuses what it cannot build or compare.
func TestReproduceRefuses(t *testing.T) {
	t.Parallel()
	dist := t.TempDir()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "VERSION=v1.2.3 is missing"},
		{[]string{"VERSION=" + version}, "SHA256SUMS does not exist: download the files of " + version},
	} {
		out, err := admin(t, nil, append([]string{"reproduce", "DIST=" + dist}, tt.args...)...)
		if err == nil || !strings.Contains(out, tt.want) {
			t.Errorf("got %v and %q, want %q", err, out, tt.want)
		}
	}
	must(t, os.WriteFile(filepath.Join(dist, "SHA256SUMS"), []byte("sum  file\n"), 0o600))
	out, err := admin(t, nil, "reproduce", "VERSION=v0.0.1-none", "PUBLISHED="+dist)
	if err == nil || !strings.Contains(out, "this clone has no tag v0.0.1-none: run git fetch --tags") {
		t.Errorf("got %v and %q", err, out)
	}
}
