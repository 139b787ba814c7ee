// SPDX-License-Identifier: Apache-2.0

package sbom

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/http01-proxyd/http01-proxyd/build/binary"
)

// addBinary adds a binary and its modules, and returns its reference. A binary does not
// record dependencies between modules, so all are dependencies of the binary.
func (b *bill) addBinary(from binary.Binary) (string, error) {
	sum, err := checksum(from.File)
	if err != nil {
		return "", err
	}
	name := filepath.Base(from.File)
	ref := "file:" + name
	b.components[ref] = cdx.Component{
		BOMRef:  ref,
		Type:    cdx.ComponentTypeApplication,
		Name:    name,
		Version: from.Commit.Version,
		Hashes:  &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}},
	}
	b.dependsOn(ref, b.addStandardLibrary(from.Info.GoVersion))
	for _, m := range from.Info.Deps {
		b.dependsOn(ref, b.addModule(*m, cdx.ComponentTypeLibrary))
	}
	return ref, nil
}

// addModule adds a module, or its replacement, and returns its reference.
func (b *bill) addModule(m debug.Module, kind cdx.ComponentType) string {
	if m.Replace != nil {
		m = *m.Replace
	}
	purl := golangURL(m.Path, m.Version)
	b.components[purl] = cdx.Component{
		BOMRef:     purl,
		Type:       kind,
		Name:       m.Path,
		Version:    m.Version,
		PackageURL: purl,
		Properties: properties("sum", m.Sum), // as in go.sum and the checksum database
	}
	return purl
}

// addStandardLibrary adds the standard library, under its name in the Go vulnerability
// database (https://go.dev/doc/security/vuln/database).
func (b *bill) addStandardLibrary(goVersion string) string {
	const name = "stdlib"
	version := strings.TrimPrefix(goVersion, "go")
	purl := golangURL(name, version)
	b.components[purl] = cdx.Component{
		BOMRef:      purl,
		Type:        cdx.ComponentTypeLibrary,
		Name:        name,
		Version:     version,
		Description: "standard library and runtime of the Go toolchain",
		PackageURL:  purl,
		Properties:  properties("toolchain", goVersion),
	}
	return purl
}

// addImage adds the image with its contents, and returns its reference
// (https://github.com/package-url/purl-spec/blob/main/types-doc/oci-definition.md).
func (b *bill) addImage(ref string, contents []string) (string, error) {
	repository, digest, found := strings.Cut(ref, "@")
	algorithm, sum, _ := strings.Cut(digest, ":")
	if raw, err := hex.DecodeString(sum); !found || algorithm != "sha256" || err != nil || len(raw) != sha256.Size {
		return "", fmt.Errorf("image %q has no sha256 digest: use the form REGISTRY/NAME@sha256:HEX", ref)
	}
	name := path.Base(repository)
	purl := fmt.Sprintf("pkg:oci/%s@%s%%3A%s?repository_url=%s", name, algorithm, sum, strings.ReplaceAll(repository, ":",
		"%3A"))
	b.components[purl] = cdx.Component{
		BOMRef:     purl,
		Type:       cdx.ComponentTypeContainer,
		Name:       name,
		Version:    digest,
		PackageURL: purl,
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}},
	}
	for _, content := range contents {
		b.dependsOn(purl, content)
	}
	return purl, nil
}

// checksum returns the SHA-256 of a file, in hexadecimal.
func checksum(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("cannot read %s: %w", file, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
