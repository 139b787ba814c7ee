// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/http01-proxyd/http01-proxyd/build/image"
)

// entry is an entry of a layer.
type entry struct {
	header  tar.Header
	content []byte
}

// at returns an entry at the path of the binary.
func at(h tar.Header, content []byte) entry {
	h.Name = strings.TrimPrefix(image.BinaryPath, "/")
	return entry{h, content}
}

func packLayer(t *testing.T, entries ...entry) v1.Layer {
	t.Helper()
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, e := range entries {
		e.header.Size = int64(len(e.content))
		must(t, w.WriteHeader(&e.header))
		must1(w.Write(e.content))(t)
	}
	must(t, w.Close())
	return must1(tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer),
	))(t)
}

// unpacked is a layer with the diff ID of its unpacked content.
type unpacked struct {
	v1.Layer

	diffID v1.Hash
}

func (l unpacked) DiffID() (v1.Hash, error) { return l.diffID, nil }

// zeroLayer returns a small layer that unpacks to large files of zeros. It repeats one compressed
// block, as a gzip file may have several members (RFC 1952).
func zeroLayer(t *testing.T, names []string, blocks int) v1.Layer {
	t.Helper()
	block := make([]byte, 16<<20)
	member := func(text []byte) []byte {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		must1(w.Write(text))(t)
		must(t, w.Close())
		return packed.Bytes()
	}
	zeros := member(block)
	var layer []byte
	plain := sha256.New()
	for _, name := range names {
		var header bytes.Buffer
		must(t, tar.NewWriter(&header).WriteHeader(&tar.Header{
			Name: strings.TrimPrefix(name, "/"), Mode: 0o755, Size: int64(blocks * len(block)),
		}))
		layer = append(layer, member(header.Bytes())...)
		plain.Write(header.Bytes())
		for range blocks {
			layer = append(layer, zeros...)
			plain.Write(block)
		}
	}
	end := make([]byte, 1024)
	plain.Write(end)
	return unpacked{
		static.NewLayer(append(layer, member(end)...), types.OCILayer),
		v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(plain.Sum(nil))},
	}
}

// pushLayer pushes an image for this machine and returns its reference.
func (n *node) pushLayer(layer v1.Layer) string {
	n.t.Helper()
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img = must1(mutate.AppendLayers(img, layer))(n.t)
	config := must1(img.ConfigFile())(n.t).DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	img = must1(mutate.ConfigFile(img, config))(n.t)
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
		Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}},
	})
	return must1(n.Registry.Push(n.t.Context(), "http01-proxyd/http01-proxyd", index))(n.t)
}

// TestHostileImages: an image can neither be installed nor hinder the next one, whatever is at the path
// of the binary. Nothing of it stays on the host.
func TestHostileImages(t *testing.T) {
	n := newServingNode(t)
	good := must1(os.ReadFile(filepath.Join(os.Getenv(binariesVariable), second)))(t)
	const forbidden = "it requires a right that the installer does not have"
	for name, tt := range map[string]struct {
		layer v1.Layer
		want  string
	}{
		"directory": {packLayer(t,
			at(tar.Header{Typeflag: tar.TypeDir, Mode: 0o755}, nil),
			entry{tar.Header{Name: strings.TrimPrefix(image.BinaryPath, "/") + "/file", Mode: 0o644}, []byte("x")},
		), "it is a directory, not a regular file"},
		"FIFO": {
			packLayer(t, at(tar.Header{Typeflag: tar.TypeFifo, Mode: 0o755}, nil)),
			"it is a fifo, not a regular file",
		},
		"device": {packLayer(t, at(tar.Header{Typeflag: tar.TypeChar, Mode: 0o755, Devmajor: 1, Devminor: 5}, nil)), forbidden},
		"link to the binary": {packLayer(t,
			entry{tar.Header{Name: "binary", Mode: 0o755}, good},
			at(tar.Header{Typeflag: tar.TypeSymlink, Linkname: "/binary", Mode: 0o777}, nil),
		), "it is a symbolic link, not a regular file"},
		"link to the host": {
			packLayer(t, at(tar.Header{Typeflag: tar.TypeSymlink, Linkname: "/../../../../../../etc/shadow", Mode: 0o777}, nil)),
			"it is a symbolic link, not a regular file",
		},
		"no file": {
			packLayer(t, entry{tar.Header{Name: "usr/bin/other", Mode: 0o755}, good}),
			"it is a missing file, not a regular file",
		},
		"no folder":   {packLayer(t, entry{tar.Header{Name: "other", Mode: 0o755}, good}), "the image does not contain it"},
		"set-user-ID": {packLayer(t, at(tar.Header{Mode: 0o4755}, good)), forbidden},
		"file capabilities": {packLayer(t, at(tar.Header{Mode: 0o755, PAXRecords: map[string]string{
			// Version 2 with cap_net_admin=ep (linux/capability.h).
			"SCHILY.xattr.security.capability": "\x01\x00\x00\x02\x00\x10\x00\x00" + strings.Repeat("\x00", 12),
		}}, good)), forbidden},
		"another owner": {packLayer(t, at(tar.Header{Mode: 0o755, Uid: 1000}, good)), forbidden},
		"large file":    {zeroLayer(t, []string{image.BinaryPath}, 16), "it is larger than the installer permits"},
		"many large files": {
			zeroLayer(t, []string{"/a", "/b", "/c", "/d", image.BinaryPath}, 7),
			"it is larger than the installer permits",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n.require(n.pushLayer(tt.layer), n.sums[second])
			n.awaitInstaller(t, n.Host, tt.want, "The installed binary is unchanged.", "status=1/FAILURE")
			must(t, n.checkRelease(t.Context(), n.Host, first))
			n.runScript("test ! -e " + binary + ".previous && test ! -e /usr/local/bin/.http01-proxyd.next")
		})
	}
	// A directory that an earlier installer left in the place of the next binary, on a host without
	// podman's storage.
	n.runScript("rm -rf /var/lib/containers && mkdir -p /usr/local/bin/.http01-proxyd.next/file")
	n.require(n.pushLayer(packLayer(t, at(tar.Header{Mode: 0o711}, good))), n.sums[second])
	n.awaitInstaller(t, n.Host, "is installed: http01-proxyd")
	must(t, n.checkRelease(t.Context(), n.Host, second))
	if got := n.runScript("stat --format='%A %u' " + binary); got != "-rwxr-xr-x 0\n" {
		t.Errorf("the installed binary is %s", got)
	}
}

// require runs the installer once with an image and the checksum of its binary.
func (n *node) require(image, sum string) {
	n.t.Helper()
	n.dropIn(installer, "[Service]\nEnvironment=HTTP01_PROXYD_IMAGE="+image+" HTTP01_PROXYD_SHA256_"+
		strings.ToUpper(strings.TrimSpace(n.runScript("uname -m")))+"="+sum+"\n")
	n.runScript("systemctl stop " + timer + " && systemctl restart " + installer)
}

// TestInstallerUnit holds the sandbox of the installer.
func TestInstallerUnit(t *testing.T) {
	n := newNode(t)
	n.apply(n.images[first])
	unit := "/etc/systemd/system/" + installer
	if out := n.runScript("systemd-analyze verify --man=no " + unit + " 2>&1"); strings.TrimSpace(out) != "" {
		t.Errorf("systemd-analyze verify: %s", out)
	}
	lines := strings.Split(strings.TrimSpace(n.runScript("systemd-analyze security --offline=true "+unit)), "\n")
	last := lines[len(lines)-1]
	if found := regexp.MustCompile(`: ([0-9]\.[0-9]) `).FindStringSubmatch(last); found == nil || found[1] > "3.1" {
		t.Errorf("%q: want an exposure of 3.1 at most", last)
	}
}
