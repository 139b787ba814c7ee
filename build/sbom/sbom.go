// SPDX-License-Identifier: Apache-2.0

package sbom

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/http01-proxyd/http01-proxyd/build/binary"
	"github.com/http01-proxyd/http01-proxyd/build/image"
)

// specVersion is the version of the format: 1.6 is ECMA-424, and current scanners read
// it.
const specVersion = cdx.SpecVersion1_6

// program is the name of the release. The image contains its Linux binaries.
const program = "http01-proxyd"

// Options are the inputs of a bill of materials.
type Options struct {
	// Binaries are the binaries of the release, of one commit. At least one is
	// required.
	Binaries []binary.Binary
	// Image is the image's reference by digest, REGISTRY/NAME@sha256:HEX. Empty omits
	// the image.
	Image string
	// Roots is the module of the image's certificates.
	Roots debug.Module
}

// bill collects the components.
type bill struct {
	components   map[string]cdx.Component // by reference
	dependencies map[string][]string
}

// New returns the bill of materials of a release.
func New(o Options) (*cdx.BOM, error) {
	if len(o.Binaries) == 0 {
		return nil, errors.New("cannot build the bill of materials: no binary given")
	}
	b := bill{components: make(map[string]cdx.Component), dependencies: make(map[string][]string)}
	release := releaseComponent(o.Binaries[0])
	var inImage []string
	for _, binary := range o.Binaries {
		ref, err := b.addBinary(binary)
		if err != nil {
			return nil, fmt.Errorf("cannot build the bill of materials: %w", err)
		}
		b.dependsOn(release.BOMRef, ref)
		if binary.Program == program && binary.OS == "linux" {
			inImage = append(inImage, ref)
		}
	}
	if o.Image != "" {
		ref, err := b.addImage(o.Image, append(inImage, b.addModule(o.Roots, cdx.ComponentTypeData)))
		if err != nil {
			return nil, fmt.Errorf("cannot build the bill of materials: %w", err)
		}
		b.dependsOn(release.BOMRef, ref)
	}
	return b.assemble(o.Binaries[0], release), nil
}

// Write writes a bill of materials as JSON.
func Write(w io.Writer, bom *cdx.BOM) error {
	encoder := cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false)
	if err := encoder.EncodeVersion(bom, specVersion); err != nil {
		return fmt.Errorf("cannot write the bill of materials: %w", err)
	}
	return nil
}

// assemble returns the bill of materials in a stable order.
func (b *bill) assemble(first binary.Binary, release cdx.Component) *cdx.BOM {
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Component:  &release,
		Lifecycles: &[]cdx.Lifecycle{{Phase: cdx.LifecyclePhasePostBuild}},
		Supplier:   &cdx.OrganizationalEntity{Name: program, URL: &[]string{image.Source}},
	}
	if !first.Commit.Time.IsZero() {
		bom.Metadata.Timestamp = first.Commit.Time.UTC().Format(time.RFC3339)
	}
	components := make([]cdx.Component, 0, len(b.components))
	dependencies := []cdx.Dependency{b.dependency(release.BOMRef)}
	for _, ref := range slices.Sorted(maps.Keys(b.components)) {
		components = append(components, b.components[ref])
		dependencies = append(dependencies, b.dependency(ref))
	}
	bom.Components, bom.Dependencies = &components, &dependencies
	return bom
}

func (b *bill) dependsOn(ref, other string) {
	b.dependencies[ref] = append(b.dependencies[ref], other)
}

func (b *bill) dependency(ref string) cdx.Dependency {
	on := slices.Sorted(slices.Values(b.dependencies[ref]))
	if len(on) == 0 {
		return cdx.Dependency{Ref: ref}
	}
	return cdx.Dependency{Ref: ref, Dependencies: &on}
}

// releaseComponent returns the component that the bill of materials describes.
func releaseComponent(b binary.Binary) cdx.Component {
	purl := golangURL(b.Info.Main.Path, b.Commit.Version)
	return cdx.Component{
		BOMRef:     purl,
		Type:       cdx.ComponentTypeApplication,
		Name:       program,
		Version:    b.Commit.Version,
		PackageURL: purl,
		Licenses:   &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
		Properties: properties("vcs.revision", b.Commit.Revision),
		ExternalReferences: &[]cdx.ExternalReference{
			{Type: cdx.ERTypeVCS, URL: image.Source},
		},
	}
}

// properties returns a property, or nil for an empty value.
func properties(name, value string) *[]cdx.Property {
	if value == "" {
		return nil
	}
	return &[]cdx.Property{{Name: "go:" + name, Value: value}}
}

// golangURL returns a module's package URL
// (https://github.com/package-url/purl-spec/blob/main/types-doc/golang-definition.md).
func golangURL(path, version string) string {
	url := "pkg:golang/" + strings.ToLower(path)
	if version == "" || version == "(devel)" {
		return url
	}
	return url + "@" + strings.NewReplacer("+", "%2B", ":", "%3A").Replace(version)
}
