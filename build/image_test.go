// SPDX-License-Identifier: Apache-2.0

package build_test

import (
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// makeImage makes the image as `I=$(make image …)` does, and returns what is in
// I, what the terminal shows besides, and make's error.
func makeImage(t *testing.T, dir string, env []string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, notes strings.Builder
	err = runInto(t, &out, &notes, dir, env, "make", append([]string{"-f", "build/release.mk", "image"}, args...)...)
	return strings.TrimSuffix(out.String(), "\n"), notes.String(), err
}

// newRegistry makes an empty registry on an address, to be started.
func newRegistry(t *testing.T, address string) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that are to fail
	must(t, server.Listener.Close())
	listener := must1(new(net.ListenConfig).Listen(t.Context(), "tcp", address))(t)
	server.Listener = listener
	return server
}

func TestImageOnTheCommandLine(t *testing.T) {
	// Not parallel: see TestReleaseIsReproducible.
	dir := clone(t, snapshot(t), "clone")
	digest, notes, err := makeImage(t, dir, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, notes)
	}
	if data := files(t, filepath.Join(dir, "dist"))["image.digest"]; digest+"\n" != data {
		t.Errorf("the standard output is %q, want the digest alone, %q", digest, data)
	}
	if want := "image: http01-proxyd v0.0.0-20260304050607-"; !strings.Contains(notes, want) ||
		strings.Contains(notes, "warning") {
		t.Errorf("want %q, and no warning:\n%s", want, notes)
	}

	t.Run("plain HTTP", func(t *testing.T) { checkPlainHTTP(t, dir, digest) })
	t.Run("a CA of one's own", func(t *testing.T) { checkOwnCA(t, dir, digest) })
	t.Run("no registry", func(t *testing.T) {
		out, notes, err := makeImage(t, dir, nil, "PUSH=http01-proxyd:latest")
		if want := `"http01-proxyd:latest" does not begin with a registry: name it as`; err == nil || out != "" ||
			!strings.Contains(notes, want) {
			t.Errorf("%v, %q; want %q in\n%s", err, out, want, notes)
		}
	})
	t.Run("a new file in the tree", func(t *testing.T) {
		must(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("to do\n"), 0o600))
		again, notes, err := makeImage(t, dir, nil)
		if err != nil || again == digest || !strings.HasPrefix(again, "sha256:") {
			t.Errorf("%v, %q; want another digest than %s\n%s", err, again, digest, notes)
		}
		for _, want := range []string{"+dirty\n", "image: warning: git status shows", "commit or remove them"} {
			if !strings.Contains(notes, want) {
				t.Errorf("want %q in\n%s", want, notes)
			}
		}
	})
}

// checkPlainHTTP: HTTP without TLS is used only on request.
func checkPlainHTTP(t *testing.T, dir, digest string) {
	t.Helper()
	// With 127.0.0.1 it is tried unasked.
	server := newRegistry(t, "127.0.0.2:0")
	server.Start()
	ref := server.Listener.Addr().String() + "/some/http01-proxyd"
	for _, args := range [][]string{nil, {"PLAIN_HTTP=0"}, {"PLAIN_HTTP=no"}} {
		out, notes, err := makeImage(t, dir, nil, append(args, "PUSH="+ref)...)
		if err == nil || out != "" || !strings.Contains(notes, "PLAIN_HTTP=1 of make") {
			t.Errorf("with %q: %v, %q\n%s", args, err, out, notes)
		}
	}
	out, notes, err := makeImage(t, dir, nil, "PLAIN_HTTP=1", "PUSH="+ref+":x")
	if err != nil || out != ref+"@"+digest {
		t.Errorf("%v, %q; want %s@%s\n%s", err, out, ref, digest, notes)
	}
}

// checkOwnCA follows the remediation for an unknown CA.
func checkOwnCA(t *testing.T, dir, digest string) {
	t.Helper()
	server := newRegistry(t, "127.0.0.1:0")
	server.StartTLS()
	ref := server.Listener.Addr().String() + "/some/http01-proxyd"
	out, notes, err := makeImage(t, dir, nil, "PUSH="+ref+":x")
	if err == nil || out != "" || !strings.Contains(notes, "SSL_CERT_FILE=ca.pem") {
		t.Errorf("%v, %q\n%s", err, out, notes)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	must(t, os.WriteFile(ca, text, 0o600))
	out, notes, err = makeImage(t, dir, []string{"SSL_CERT_FILE=" + ca}, "PUSH="+ref+":x")
	if err != nil || out != ref+"@"+digest {
		t.Errorf("%v, %q; want %s@%s\n%s", err, out, ref, digest, notes)
	}
}
