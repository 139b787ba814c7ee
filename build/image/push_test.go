// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/http01-proxyd/http01-proxyd/build/image"
)

// startRegistry serves an empty registry on loopback, behind what wrap makes of
// it, and returns its host and port.
func startRegistry(t *testing.T, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	server := httptest.NewServer(wrap(registry.New(registry.Logger(log.New(io.Discard, "", 0)))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func open(h http.Handler) http.Handler { return h }

func TestPushAndPull(t *testing.T) {
	t.Parallel()
	host := startRegistry(t, open)
	for push, tags := range map[string][]string{
		"tagged:v1.2.3": {"v1.2.3"},
		"a/b/c:latest":  {"latest"},
		"untagged":      nil,
	} {
		t.Run(push, func(t *testing.T) {
			t.Parallel()
			index := build(t, options(t))
			ref := must1(image.Push(t.Context(), host+"/"+push, index, image.PushOptions{Keychain: authn.NewMultiKeychain()}))(t)
			repository, _, _ := strings.Cut(push, ":")
			if want := host + "/" + repository + "@" + digest(t, index); ref != want {
				t.Errorf("got the reference %s, want %s", ref, want)
			}
			byDigest := must1(name.NewDigest(ref))(t)
			pulled := must1(remote.Index(byDigest, remote.WithContext(t.Context())))(t)
			if diff := cmp.Diff(raw(t, index), raw(t, pulled)); diff != "" {
				t.Errorf("the index, -pushed +pulled:\n%s", diff)
			}
			// All manifests, configs and layers, each with its checksum.
			if err := validate.Index(pulled); err != nil {
				t.Error(err)
			}
			for _, tag := range tags {
				byTag, err := remote.Head(byDigest.Tag(tag), remote.WithContext(t.Context()))
				if err != nil || byTag.Digest.String() != digest(t, index) {
					t.Errorf("the tag %s: %v, %v", tag, byTag, err)
				}
			}
			if listed, err := remote.List(byDigest.Context(), remote.WithContext(t.Context())); len(tags) > 0 && err != nil ||
				len(listed) != len(tags) {
				t.Errorf("tags %q (%v), want %q", listed, err, tags)
			}
		})
	}
}

// TestPushUsesPodmanCredentials: a release engineer has logged in with podman
// and names its file.
func TestPushUsesPodmanCredentials(t *testing.T) {
	host := startRegistry(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if user, password, _ := r.BasicAuth(); user != "me" || password != "secret" {
				w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
				http.Error(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`, http.StatusUnauthorized)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	home := t.TempDir()
	for _, variable := range []string{"DOCKER_CONFIG", "REGISTRY_AUTH_FILE", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"} {
		t.Setenv(variable, "")
	}
	t.Setenv("HOME", home)
	index := build(t, options(t))
	if _, err := image.Push(t.Context(), host+"/x:y", index, image.PushOptions{}); err == nil ||
		!strings.Contains(err.Error(), "podman login "+host) {
		t.Errorf("without credentials: got %v", err)
	}

	auth := filepath.Join(home, "auth.json")
	text := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, base64.StdEncoding.EncodeToString([]byte("me:secret")))
	must(t, os.WriteFile(auth, []byte(text), 0o600))
	t.Setenv("REGISTRY_AUTH_FILE", auth)
	if _, err := image.Push(t.Context(), host+"/x:y", index, image.PushOptions{}); err != nil {
		t.Error(err)
	}
}

func TestPushErrors(t *testing.T) {
	t.Parallel()
	gone := startRegistry(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"errors":[{"code":"DENIED","message":"no such organisation"}]}`, http.StatusForbidden)
		})
	})
	index := build(t, options(t))
	for name, tt := range map[string]struct{ ref, want string }{
		"not a reference": {"UPPER/case:tag", "name it as REGISTRY/NAME[:TAG]"},
		"by digest":       {"quay.io/a/b@" + digest(t, index), "name it as REGISTRY/NAME[:TAG]"},
		"refused":         {gone + "/a/b:c", "push the image to " + gone + "/a/b:c: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := image.Push(t.Context(), tt.ref, index, image.PushOptions{Keychain: authn.NewMultiKeychain()})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
