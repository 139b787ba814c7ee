// SPDX-License-Identifier: Apache-2.0

// Command image makes the container image that carries the host binary, and
// pushes it.
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

	"github.com/http01-proxyd/http01-proxyd/build/binary"
	"github.com/http01-proxyd/http01-proxyd/build/image"
	"github.com/http01-proxyd/http01-proxyd/build/internal/program"
)

// pushTimeout bounds a push to a registry that stalls: some 10 MB.
const pushTimeout = 15 * time.Minute

func main() { imageProgram().Main() }

type flags struct {
	binaries  string
	out       string
	push      string
	version   string
	plainHTTP bool
}

func imageProgram() program.Program {
	return program.Program{
		Name: "image",
		Help: `Make the container image of http01-proxyd, for all platforms, out of the binaries
that "make binaries" built. It needs no daemon and no network. The image is
written as an OCI layout (oci:DIR for podman and skopeo), its digest beside it
in DIR.digest and to the standard output; then, with --push, its reference by
digest. The commit, its time and the version come from the binaries: the same
binaries give the same digest.

Credentials are those of ~/.docker/config.json, else of the file that
$REGISTRY_AUTH_FILE names, else podman's own.

Examples:
  image --binaries dist --out dist/image

  # and put it into a registry, with the version as its tag
  image --binaries dist --out dist/image --push quay.io/http01-proxyd/http01-proxyd`,
		Setup: func(set *flag.FlagSet) func(context.Context, io.Writer) error {
			var f flags
			set.StringVar(&f.binaries, "binaries", "dist", "`DIR` of the binaries http01-proxyd-linux-ARCH")
			set.StringVar(&f.out, "out", "dist/image", "`DIR` that the OCI layout is written to, in place of one that is there")
			set.StringVar(&f.push, "push", "", "push to this `REFERENCE`, REGISTRY/NAME[:TAG]; without a tag the version is it")
			set.StringVar(&f.version, "version", "", "what the image says its `VERSION` is, instead of what the binaries say")
			set.BoolVar(&f.plainHTTP, "plain-http", false, "let the registry be one without TLS")
			return f.run
		},
	}
}

func (f *flags) run(ctx context.Context, out io.Writer) error {
	options, err := f.options()
	if err != nil {
		return err
	}
	index, err := image.Build(options)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("find the image's digest: %w", err)
	}
	if err := image.WriteLayout(f.out, index); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Clean(f.out)+".digest", []byte(digest.String()+"\n"), 0o644); err != nil { //nolint:gosec // to be read by anyone
		return fmt.Errorf("write the image's digest: %w", err)
	}
	fmt.Fprintln(out, digest)
	if f.push == "" {
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

// options takes what the image is made of from the binaries.
func (f *flags) options() (image.Options, error) {
	binaries, err := binary.ReadAll(f.binaries, "http01-proxyd-linux-*")
	if err != nil {
		return image.Options{}, err
	}
	o := image.Options{Binaries: make(map[string]string)}
	for _, b := range binaries {
		o.Binaries[b.Arch] = b.File
		o.Version, o.Revision, o.Created = b.Commit.Version, b.Commit.Revision, b.Commit.Time
	}
	lacking := slices.DeleteFunc(image.Architectures(), func(arch string) bool { return o.Binaries[arch] != "" })
	if len(lacking) > 0 {
		return image.Options{}, fmt.Errorf("%s has no http01-proxyd-linux-* for %s; run: make binaries", f.binaries, strings.Join(lacking, ", "))
	}
	if f.version != "" {
		o.Version = f.version
	}
	return o, nil
}

// withTag adds the version as a tag to a reference that has none. A tag cannot
// hold all that a version can
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
