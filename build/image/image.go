// SPDX-License-Identifier: Apache-2.0

package image

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The paths in the image.
const (
	BinaryPath       = "/usr/bin/http01-proxyd"
	CertificatesPath = "/etc/ssl/certs/ca-certificates.crt" // the first place where crypto/x509 looks
	SharePath        = "/usr/share"                         // with the man pages and completion files
)

// Source is the repository of the code.
const Source = "https://github.com/http01-proxyd/http01-proxyd"

// Options are the inputs of an image.
type Options struct {
	// Binaries are the paths of the host binary, by GOARCH. At least one is required.
	// All are for Linux.
	Binaries map[string]string
	// Share is the folder of "make share". The image contains its files about the host
	// binary; empty: none.
	Share string
	// Created is the creation time of the image: the commit's time, since the current
	// time would give each build a different digest. The zero value is written as 1970.
	Created time.Time
	// Version and Revision (a commit) are written to labels and annotations. An empty
	// value is omitted.
	Version  string
	Revision string
}

// Architectures returns the architectures of a release, as GOARCH, sorted.
func Architectures() []string {
	return []string{"amd64", "arm64", "ppc64le", "s390x"}
}

// Build returns the image: an OCI index with a manifest for each binary, sorted by
// architecture. Equal contents and options give an equal digest.
func Build(o Options) (v1.ImageIndex, error) {
	if len(o.Binaries) == 0 {
		return nil, errors.New("cannot build the image: no binary given")
	}
	if o.Created.IsZero() {
		o.Created = time.Unix(0, 0)
	}
	layers, err := o.commonLayers()
	if err != nil {
		return nil, fmt.Errorf("cannot build the image: %w", err)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range slices.Sorted(maps.Keys(o.Binaries)) {
		img, err := o.platform(arch, layers)
		if err != nil {
			return nil, fmt.Errorf("cannot build the image for %s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        img,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return mutate.Annotations(index, o.annotations()).(v1.ImageIndex), nil
}

// commonLayers are the layers of all architectures. They change rarely, so an upgrade
// finds them on the host.
func (o Options) commonLayers() ([]mutate.Addendum, error) {
	history := v1.History{Created: v1.Time{Time: o.Created.UTC()}}
	roots, err := rootsLayer()
	if err != nil {
		return nil, err
	}
	history.Comment = CertificatesPath
	layers := []mutate.Addendum{{Layer: roots, History: history}}
	if o.Share == "" {
		return layers, nil
	}
	share, err := shareLayer(o.Share)
	if err != nil {
		return nil, err
	}
	history.Comment = SharePath
	return append(layers, mutate.Addendum{Layer: share, History: history}), nil
}

// shareLayer contains the man pages and the completion files of the host binary.
func shareLayer(dir string) (v1.Layer, error) {
	var files []file
	for _, pattern := range []string{
		"bash-completion/completions/http01-proxyd", "fish/vendor_completions.d/http01-proxyd.fish",
		"man/man5/http01-proxyd.yaml.5", "man/man8/http01-proxyd*.8", "zsh/site-functions/_http01-proxyd",
	} {
		found, err := filepath.Glob(filepath.Join(dir, pattern)) // sorted
		if err != nil || len(found) == 0 {
			return nil, fmt.Errorf("%s has no %s: run make share", dir, pattern)
		}
		for _, name := range found {
			data, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			files = append(files, file{
				path: path.Join(SharePath, path.Dir(pattern), filepath.Base(name)), mode: 0o644,
				data: data,
			})
		}
	}
	return newLayer(files...)
}

// platform returns the image for one architecture.
func (o Options) platform(arch string, common []mutate.Addendum) (v1.Image, error) {
	data, err := os.ReadFile(o.Binaries[arch])
	if err != nil {
		return nil, err
	}
	layer, err := newLayer(file{path: BinaryPath, mode: 0o755, data: data})
	if err != nil {
		return nil, err
	}
	created := v1.Time{Time: o.Created.UTC()}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	program := mutate.Addendum{Layer: layer, History: v1.History{Created: created, Comment: BinaryPath}}
	img, err = mutate.Append(img, append(slices.Clone(common), program)...)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, created
	config.Config = v1.Config{Entrypoint: []string{BinaryPath}, Labels: o.annotations()}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return nil, err
	}
	return mutate.Annotations(img, o.annotations()).(v1.Image), nil
}

// annotations returns the standard keys
// (https://github.com/opencontainers/image-spec/blob/v1.1.1/annotations.md).
func (o Options) annotations() map[string]string {
	const prefix = "org.opencontainers.image."
	all := map[string]string{
		prefix + "title":       "http01-proxyd",
		prefix + "description": "ACME HTTP-01 challenge proxy on the API VIP: the binary for the host, to be copied out",
		prefix + "source":      Source,
		prefix + "licenses":    "Apache-2.0",
		prefix + "created":     o.Created.UTC().Format(time.RFC3339),
		prefix + "version":     o.Version,
		prefix + "revision":    o.Revision,
	}
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	return all
}
