// SPDX-License-Identifier: Apache-2.0

// Command attest signs the provenance and the bill of materials of a release.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/http01-proxyd/http01-proxyd/build/attest"
	"github.com/http01-proxyd/http01-proxyd/build/internal/program"
)

func main() { attestProgram().Main() }

type flags struct {
	release string
	key     string
}

func attestProgram() program.Program {
	return program.Program{
		Name: "attest",
		Help: `Write two in-toto attestations of the release that "make release" built, for its
files and its image: the SLSA provenance, and the bill of materials. Each is a
signed DSSE envelope in the folder of the release: provenance.intoto.jsonl and
sbom.intoto.jsonl.

Example, in build/:
  go run ./cmd/attest --release ../dist --key key.pem`,
		Setup: func(set *flag.FlagSet) program.Run {
			var f flags
			set.StringVar(&f.release, "release", "../dist", "`DIR` of the release")
			set.StringVar(&f.key, "key", "key.pem", "`FILE` of the private key, in PEM form, on the curve P-256")
			return f.run
		},
	}
}

func (f *flags) run(_ context.Context, _, _ io.Writer) error {
	key, err := attest.ReadKey(f.key)
	if err != nil {
		return err
	}
	statements, err := attest.Statements(f.release)
	if err != nil {
		return err
	}
	for name, statement := range statements {
		signed, err := attest.Sign(statement, key)
		if err != nil {
			return err
		}
		//nolint:gosec // to be read by anyone
		if err := os.WriteFile(filepath.Join(f.release, name), signed, 0o644); err != nil {
			return fmt.Errorf("cannot write an attestation: %w", err)
		}
	}
	return nil
}
