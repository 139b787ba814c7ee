// SPDX-License-Identifier: Apache-2.0

// Command image builds the container image that delivers the host binary, and pushes
// it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/http01-proxyd/http01-proxyd/build/binary"
	"github.com/http01-proxyd/http01-proxyd/build/image"
	"github.com/http01-proxyd/http01-proxyd/build/internal/program"
)

// pushTimeout limits an upload of about 10 MB to a registry that stalls.
const pushTimeout = 15 * time.Minute

func main() { imageProgram().Main() }

type flags struct {
	binaries  string
	share     string
	out       string
	push      string
	version   string
	released  string
	plainHTTP bool
}

func imageProgram() program.Program {
	return program.Program{
		Name: "image",
		Help: `Make the container image of http01-proxyd, for all platforms, out of the binaries
that "make binaries" built. It needs no daemon and no network. The image is
written as an OCI layout (oci:DIR for podman and skopeo), its digest beside it
in DIR.digest. The standard output is that digest, or with --push the reference
by digest, alone. The commit, its time and the version come from the binaries:
the same binaries give the same digest.

Credentials are those of ~/.docker/config.json, else of the file that
$REGISTRY_AUTH_FILE names, else podman's own. A registry whose certificate is of
a CA of your own needs SSL_CERT_FILE=ca.pem in the environment.

Examples, in build/:
  go run ./cmd/image

  # and put it into a registry, with the version as its tag
  go run ./cmd/image --push quay.io/http01-proxyd/http01-proxyd`,
		Setup: func(set *flag.FlagSet) program.Run {
			var f flags
			set.StringVar(&f.binaries, "binaries", "../dist", "`DIR` of the binaries http01-proxyd-linux-ARCH")
			set.StringVar(&f.share, "share", "", "`DIR` of the man pages and completion files; default: the image has none")
			set.StringVar(&f.out, "out", "../dist/image", "`DIR` of the OCI layout, which replaces an existing one")
			set.StringVar(&f.push, "push", "", "`REFERENCE` to push to, REGISTRY/NAME[:TAG]; the default tag is the version")
			set.StringVar(&f.version, "version", "", "`VERSION` in the image's metadata; default: that of the binaries")
			set.StringVar(&f.released, "released", "",
				"`DIGEST` of the released image in --out, which is the only one that may be written or pushed")
			set.BoolVar(&f.plainHTTP, "plain-http", false, "allow a registry without TLS")
			return f.run
		},
	}
}

func (f *flags) run(ctx context.Context, out, notes io.Writer) error {
	if f.push != "" {
		if err := image.CheckReference(f.push); err != nil {
			return err
		}
	}
	options, commit, err := f.options()
	if err != nil {
		return err
	}
	index, digest, err := f.build(options)
	if err != nil {
		return err
	}
	describe(notes, options.Version, commit)
	if f.push == "" {
		fmt.Fprintln(out, digest)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	ref, err := image.Push(ctx, withTag(f.push, options.Version), index, image.PushOptions{PlainHTTP: f.plainHTTP})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, ref)
	return nil
}

// build builds the image, and writes it with its digest unless the directory contains
// another release.
func (f *flags) build(options image.Options) (v1.ImageIndex, string, error) {
	index, err := image.Build(options)
	if err != nil {
		return nil, "", err
	}
	hash, err := index.Digest()
	if err != nil {
		return nil, "", fmt.Errorf("cannot find the image's digest: %w", err)
	}
	digest := hash.String()
	if f.released != "" && digest != f.released {
		return nil, "",
			fmt.Errorf("the image of these binaries (%s) is %s, but %s contains a release whose MachineConfigs name %s; "+
				"to push its image, check out its commit without changes and use its Go release; for another image, set DIST= "+
				"to another folder or run make clean",
				options.Version, digest, filepath.Dir(filepath.Clean(f.out)), f.released)
	}
	if err := image.WriteLayout(f.out, index); err != nil {
		return nil, "", err
	}
	if err := os.WriteFile(filepath.Clean(f.out)+".digest", []byte(digest+"\n"), 0o644); err != nil { //nolint:gosec // to be read by anyone
		return nil, "", fmt.Errorf("cannot write the image's digest: %w", err)
	}
	return index, digest, nil
}

// describe reports the version in the image, and warns about an image that cannot be
// built again.
func describe(notes io.Writer, version string, commit binary.Commit) {
	fmt.Fprintf(notes, "image: http01-proxyd %s\n", version)
	switch {
	case commit.Revision == "":
		fmt.Fprintln(notes,
			"image: warning: the binaries record no commit, so this image cannot be built again; build them in a clone of "+
				"the repository, with git")
	case commit.Dirty():
		fmt.Fprintln(notes,
			"image: warning: git status shows changes or new files, so this image cannot be built again, and its digest is "+
				"not that of the commit; "+
				"commit or remove them, then build the image again")
	}
}

// options returns the inputs of the image and the commit of the binaries.
func (f *flags) options() (image.Options, binary.Commit, error) {
	binaries, err := binary.ReadAll(f.binaries, "http01-proxyd-linux-*")
	if err != nil {
		return image.Options{}, binary.Commit{}, err
	}
	o := image.Options{Binaries: make(map[string]string), Share: f.share}
	for _, b := range binaries {
		o.Binaries[b.Arch] = b.File
	}
	missing := slices.DeleteFunc(image.Architectures(), func(arch string) bool { return o.Binaries[arch] != "" })
	if len(missing) > 0 {
		return image.Options{}, binary.Commit{}, fmt.Errorf("%s has no http01-proxyd-linux-* for %s; run make binaries",
			f.binaries, strings.Join(missing, ", "))
	}
	commit := binaries[0].Commit // of all of them
	o.Version, o.Revision, o.Created = commit.Version, commit.Revision, commit.Time
	if f.version != "" {
		o.Version = f.version
	}
	return o, commit, nil
}

// withTag adds the version as a tag to a reference without a tag. A tag allows fewer
// characters than a version
// (https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md#pulling-manifests).
func withTag(ref, version string) string {
	if strings.Contains(ref[strings.LastIndex(ref, "/")+1:], ":") {
		return ref
	}
	tag := strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, version)
	return ref + ":" + tag
}
