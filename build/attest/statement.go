// SPDX-License-Identifier: Apache-2.0

package attest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/http01-proxyd/http01-proxyd/build/image"
)

// Types of the formats.
const (
	statementType = "https://in-toto.io/Statement/v1"
	slsaType      = "https://slsa.dev/provenance/v1"
	cycloneDXType = "https://cyclonedx.org/bom"
)

// The sections that describe externalParameters and the machine that built the release
// (https://slsa.dev/spec/v1.0/provenance#builddefinition).
const (
	buildType = image.Source + "/blob/main/build/README.md#the-build-type"
	builderID = image.Source + "/blob/main/build/README.md#the-builder"
)

// The files of a release that the attestations describe.
const (
	sumsFile = "SHA256SUMS"
	bomFile  = "sbom.cdx.json"
)

// statement is an in-toto Statement
// (https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md).
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     any        `json:"predicate"`
}

// resource is an in-toto ResourceDescriptor.
type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

// release is the content of the attestations.
type release struct {
	subjects   []resource
	inputs     []resource // the commit, the Go toolchain and the modules
	version    string
	repository string // of the image
	bom        json.RawMessage
}

// read reads SHA256SUMS and the bill of materials of the release in dir.
func read(dir string) (release, error) {
	sums, err := os.ReadFile(filepath.Join(dir, sumsFile))
	if err != nil {
		return release{}, err
	}
	text, err := os.ReadFile(filepath.Join(dir, bomFile))
	if err != nil {
		return release{}, err
	}
	r := release{bom: text}
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		r.subjects = append(r.subjects, resource{Name: name, Digest: map[string]string{"sha256": sum}})
	}
	if digest := sha256.Sum256(text); !strings.Contains(string(sums), hex.EncodeToString(digest[:])+"  "+bomFile) {
		return release{}, fmt.Errorf("%s is not the file of %s; run make release", bomFile, sumsFile)
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		return release{}, fmt.Errorf("%s: %w", bomFile, err)
	}
	err = r.addInputs(&bom)
	return r, err
}

// addInputs adds what the bill of materials says about the source, the image and the modules.
func (r *release) addInputs(bom *cdx.BOM) error {
	if bom.Metadata == nil || bom.Metadata.Component == nil || bom.Components == nil {
		return errors.New("the bill of materials describes no release")
	}
	main := *bom.Metadata.Component
	revision := property(main, "go:vcs.revision")
	if _, err := hex.DecodeString(revision); err != nil || revision == "" {
		return fmt.Errorf("the binaries record the revision %q, which is no commit: "+
			"commit all changes, then run make release", revision)
	}
	r.version = main.Version
	r.inputs = []resource{{URI: r.source(), Digest: map[string]string{"gitCommit": revision}}}
	for _, c := range *bom.Components {
		switch toolchain, sum := property(c, "go:toolchain"), property(c, "go:sum"); {
		case c.Type == cdx.ComponentTypeContainer:
			_, repository, _ := strings.Cut(c.PackageURL, "?repository_url=")
			r.repository = strings.ReplaceAll(repository, "%3A", ":")
			r.subjects = append(r.subjects, resource{
				Name:   r.repository,
				Digest: map[string]string{"sha256": strings.TrimPrefix(c.Version, "sha256:")},
			})
		case toolchain != "":
			r.inputs = append(r.inputs, resource{Name: toolchain, URI: c.PackageURL})
		case sum != "":
			digest, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:"))
			if err != nil {
				return fmt.Errorf("the checksum of %s: %w", c.PackageURL, err)
			}
			r.inputs = append(r.inputs, resource{
				URI:    c.PackageURL,
				Digest: map[string]string{"dirHash": hex.EncodeToString(digest)},
			})
		}
	}
	if r.repository == "" {
		return errors.New("the bill of materials has no image; run make release")
	}
	return nil
}

// source is the tag of the release.
func (r *release) source() string { return "git+" + image.Source + "@refs/tags/" + r.version }

// property returns a property of a component, or "".
func property(c cdx.Component, name string) string {
	if c.Properties != nil {
		for _, p := range *c.Properties {
			if p.Name == name {
				return p.Value
			}
		}
	}
	return ""
}

// provenance returns SLSA's predicate (https://slsa.dev/spec/v1.0/provenance). It has no time and
// no number of the run, so that it is reproducible. The external parameters are the source and
// the variables of `make release`.
func (r *release) provenance() map[string]any {
	return map[string]any{
		"buildDefinition": map[string]any{
			"buildType": buildType,
			"externalParameters": map[string]string{
				"source": r.source(), "VERSION": r.version, "IMAGE_REPOSITORY": r.repository,
			},
			"resolvedDependencies": r.inputs,
		},
		"runDetails": map[string]any{"builder": map[string]string{"id": builderID}},
	}
}

// Statements returns the statements about the release in dir, by the name of their files.
func Statements(dir string) (map[string][]byte, error) {
	r, err := read(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot attest the release in %s: %w", dir, err)
	}
	made := make(map[string][]byte)
	for name, s := range map[string]statement{
		"provenance": {PredicateType: slsaType, Predicate: r.provenance()},
		"sbom":       {PredicateType: cycloneDXType, Predicate: r.bom},
	} {
		s.Type, s.Subject = statementType, r.subjects
		if made[name+".intoto.jsonl"], err = json.Marshal(s); err != nil {
			return nil, fmt.Errorf("cannot write the attestation %s: %w", name, err)
		}
	}
	return made, nil
}
