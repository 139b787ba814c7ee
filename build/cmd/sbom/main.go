// SPDX-License-Identifier: Apache-2.0

// Command sbom writes the bill of materials of a release.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/http01-proxyd/http01-proxyd/build/binary"
	"github.com/http01-proxyd/http01-proxyd/build/image"
	"github.com/http01-proxyd/http01-proxyd/build/internal/program"
	"github.com/http01-proxyd/http01-proxyd/build/sbom"
)

func main() { sbomProgram().Main() }

type flags struct {
	binaries string
	image    string
	out      string
}

func sbomProgram() program.Program {
	return program.Program{
		Name: "sbom",
		Help: `Write the bill of materials (CycloneDX, JSON) of the binaries that "make binaries"
built and, with --image, of the image that holds them. Everything in it comes
from the binaries: the same binaries give the same file.

Example, in build/:
  go run ./cmd/sbom --binaries ../dist --out ../dist/sbom.cdx.json \
    --image "quay.io/http01-proxyd/http01-proxyd@$(cat ../dist/image.digest)"`,
		Setup: func(set *flag.FlagSet) program.Run {
			var f flags
			set.StringVar(&f.binaries, "binaries", "../dist", "`DIR` of the binaries")
			set.StringVar(&f.image, "image", "",
				"`REFERENCE` of the image by digest, REGISTRY/NAME@sha256:HEX; default: no image")
			set.StringVar(&f.out, "out", "-", "`FILE` to write, - for standard output")
			return f.run
		},
	}
}

func (f *flags) run(_ context.Context, out, _ io.Writer) error {
	binaries, err := binary.ReadAll(f.binaries, "http01-proxyd-*-*", "oc-http01-*-*")
	if err != nil {
		return err
	}
	if len(binaries) == 0 {
		return fmt.Errorf("no binary found in %s; run make binaries", f.binaries)
	}
	roots, err := image.RootsModule()
	if err != nil {
		return err
	}
	bom, err := sbom.New(sbom.Options{Binaries: binaries, Image: f.image, Roots: roots})
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := sbom.Write(&text, bom); err != nil {
		return err
	}
	if f.out == "-" {
		_, err = out.Write(text.Bytes())
		return err
	}
	if err := os.WriteFile(f.out, text.Bytes(), 0o644); err != nil { //nolint:gosec // to be read by anyone
		return fmt.Errorf("cannot write the bill of materials: %w", err)
	}
	return nil
}
