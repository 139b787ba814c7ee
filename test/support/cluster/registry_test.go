// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/http01-proxyd/http01-proxyd/test/support/cluster"
	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/registry"
)

const (
	authfile = "/var/lib/kubelet/config.json"
	inImage  = "/hello"
)

// smallImage returns an image index with one image of one file.
func smallImage(t *testing.T, content string) v1.ImageIndex {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	must(t, w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(inImage, "/"), Mode: 0o644, Size: int64(len(content))}))
	must1(io.WriteString(w, content))(t)
	must(t, w.Close())
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	})
	must(t, err)
	image, err := mutate.AppendLayers(empty.Image, layer)
	must(t, err)
	platform := v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{OS: platform.OS, Architecture: platform.Architecture, RootFS: v1.RootFS{
		Type: "layers", DiffIDs: diffIDs(t, image),
	}})
	must(t, err)
	return mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &platform}})
}

func diffIDs(t *testing.T, image v1.Image) []v1.Hash {
	t.Helper()
	config := must1(image.ConfigFile())(t)
	return config.RootFS.DiffIDs
}

func pull(ctx context.Context, m *host.Host, auth, reference string) error {
	_, err := m.Run(ctx, "podman", "pull", "--quiet", "--authfile="+auth, reference)
	return err
}

func remove(t *testing.T, m *host.Host, reference string) {
	t.Helper()
	t.Cleanup(func() {
		must1(m.Run(context.Background(), "podman", "rmi", "--force", "--ignore", reference))(t)
	})
}

// TestPull holds that podman on a host gets a file from an image by digest with kubelet's
// credentials, without further requests.
func TestPull(t *testing.T) {
	c := useCluster(t)
	reference := must1(c.Registry.Push(t.Context(), "hello", smallImage(t, "from the image\n")))(t)
	if !strings.HasPrefix(reference, "registry.lab.test/hello@sha256:") {
		t.Fatalf("the reference is %s", reference)
	}
	if got := c.Registry.Pulls(); got != (registry.Pulls{}) {
		t.Errorf("the push was counted as pulls: %+v", got)
	}
	for _, m := range c.ControlPlane {
		remove(t, m, reference)
		before := c.Registry.Pulls()
		must(t, pull(t.Context(), m, authfile, reference))
		got := c.Registry.Pulls().Since(before)
		// The index and its image; the configuration and the layer.
		if want := (registry.Pulls{Requests: got.Requests, Unauthorized: got.Unauthorized, Manifests: 2, Blobs: 2}); got != want {
			t.Errorf("requests of %s: %+v, want %+v", m, got, want)
		}
		id := must1(m.Run(t.Context(), "podman", "create", "--pull=never", reference, "none"))(t)
		must1(m.Run(t.Context(), "podman", "cp", strings.TrimSpace(id)+":"+inImage, "/tmp/hello"))(t)
		must1(m.Run(t.Context(), "podman", "rm", strings.TrimSpace(id)))(t)
		out := must1(m.Run(t.Context(), "cat", "/tmp/hello"))(t)
		if diff := cmp.Diff("from the image\n", out); diff != "" {
			t.Errorf("%s: the file (-want +got):\n%s", m, diff)
		}
		must1(m.Run(t.Context(), "rm", "/tmp/hello"))(t)
	}
}

func TestPullNeedsCredentials(t *testing.T) {
	c := useCluster(t)
	reference, err := c.Registry.Push(t.Context(), "secret", smallImage(t, "secret\n"))
	must(t, err)
	m := c.ControlPlane[0]
	for name, text := range map[string]string{
		"none":  `{"auths":{}}`,
		"wrong": `{"auths":{"registry.lab.test":{"auth":"bm9kZXM6d3Jvbmc="}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := m.Input(t.Context(), text, "sh", "-c", "cat >/run/wrong.json")
			must(t, err)
			t.Cleanup(func() { _, _ = m.Run(context.Background(), "rm", "/run/wrong.json") })
			before := c.Registry.Pulls()
			err = pull(t.Context(), m, "/run/wrong.json", reference)
			if err == nil || !strings.Contains(err.Error(), "unauthorized") && !strings.Contains(err.Error(), "authentication required") {
				t.Errorf("the pull: %v", err)
			}
			got := c.Registry.Pulls().Since(before)
			if got.Unauthorized == 0 || got.Manifests+got.Blobs > 0 {
				t.Errorf("it got %+v", got)
			}
		})
	}
}

// TestRefusedOutage holds that a pull from a stopped registry reports the refused
// connection.
func TestRefusedOutage(t *testing.T) {
	c, reference := outage(t, registry.Refused)
	before := c.Registry.Pulls()
	if err := pull(t.Context(), c.ControlPlane[0], authfile, reference); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("the pull: %v", err)
	}
	if after := c.Registry.Pulls(); after != before {
		t.Errorf("requests %+v before and %+v after, want no change", before, after)
	}
	must(t, c.Registry.Up(t.Context()))
	must(t, pull(t.Context(), c.ControlPlane[0], authfile, reference))
}

// TestHangingOutages holds that a pull waits while the registry does not answer.
func TestHangingOutages(t *testing.T) {
	const pulling = "pulling.service"
	for name, tt := range map[registry.Outage]func(context.Context, *cluster.Cluster, registry.Pulls) (met bool, err error){
		registry.Silent: func(ctx context.Context, c *cluster.Cluster, _ registry.Pulls) (bool, error) {
			lost, err := c.Registry.Lost(ctx)
			return lost > 0, err
		},
		registry.Stalled: func(_ context.Context, c *cluster.Cluster, before registry.Pulls) (bool, error) {
			return c.Registry.Pulls().Since(before).Requests > 0, nil
		},
	} {
		t.Run(name.String(), func(t *testing.T) {
			c, reference := outage(t, name)
			m := c.ControlPlane[0]
			before := c.Registry.Pulls()
			_, err := m.Run(t.Context(), "systemd-run", "--collect", "--unit="+pulling, "podman", "pull", "--authfile="+authfile, reference)
			must(t, err)
			t.Cleanup(func() { _, _ = m.Run(context.Background(), "systemctl", "stop", pulling) })
			must(t, lab.Eventually(t.Context(), "an attempt", func(ctx context.Context) error {
				met, err := tt(ctx, c, before)
				if !met && err == nil {
					err = errors.New("none so far")
				}
				return err
			}))
			if out, err := m.Run(t.Context(), "systemctl", "is-active", pulling); err != nil {
				t.Errorf("the pull has ended (%s): %v", out, err)
			}
			if got := c.Registry.Pulls().Since(before); got.Manifests+got.Blobs > 0 {
				t.Errorf("it got %+v", got)
			}
			must1(m.Run(t.Context(), "systemctl", "stop", pulling))(t)
			must(t, c.Registry.Up(t.Context()))
			must(t, pull(t.Context(), m, authfile, reference))
		})
	}
}

// outage puts the registry into an outage until the test ends and returns an image in it.
func outage(t *testing.T, o registry.Outage) (*cluster.Cluster, string) {
	t.Helper()
	c := useCluster(t)
	reference := must1(c.Registry.Push(t.Context(), "outage", smallImage(t, o.String())))(t)
	remove(t, c.ControlPlane[0], reference)
	t.Cleanup(func() { must(t, c.Registry.Up(context.Background())) })
	must(t, c.Registry.Down(t.Context(), o))
	return c, reference
}
