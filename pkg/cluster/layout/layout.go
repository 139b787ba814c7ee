// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"bytes"
	"fmt"
	"path"
	"regexp"

	"go.yaml.in/yaml/v4"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/disruption"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

// The layouts.
const (
	Kustomize = "kustomize"
	ArgoCD    = "argocd"
	RHACM     = "rhacm"
)

// Names returns the names of all layouts.
func Names() []string { return []string{Kustomize, ArgoCD, RHACM} }

// File is one file of a layout. Its path has slashes.
type File struct {
	Path string
	Text []byte
}

// Request describes what all clusters have in common.
type Request struct {
	Layout string // one of Names
	Policy disruption.Policy
	// Service and Config are the files of the two MachineConfigs.
	Service, Config string
	// CLIImage is the container image with oc, for ArgoCD.
	CLIImage string
}

// Folder returns the folder of the base's MachineConfigs. Base does not return them.
func Folder(layout string) string {
	if layout == RHACM {
		return "manifests"
	}
	return "base"
}

// Folders returns the folders that can have MachineConfigs, below that of a rendering: those
// of the bases, and the folder itself.
func Folders() []string { return []string{".", Folder(Kustomize), Folder(RHACM)} }

// PolicyFiles returns the files that can have the node disruption policy, below the folder
// of a rendering or of a base.
func PolicyFiles() []string {
	return []string{PolicyFile, path.Join(Folder(ArgoCD), basePolicyFile), path.Join(Folder(RHACM), basePolicyFile), basePolicyFile}
}

// IsOverlay reports whether a folder is that of an overlay. The base is below the folder
// two levels above.
func IsOverlay(folder string) bool {
	return path.Base(path.Dir(folder)) == path.Dir(OverlayFolder("x"))
}

// OverlayFolder returns the folder of an overlay.
func OverlayFolder(cluster string) string { return path.Join("overlays", cluster) }

// PolicyFile is the file with the node disruption policy in the layout Kustomize. It has
// a folder of its own, because kustomize cannot wait between two objects.
const PolicyFile = disruption.PolicyFile

// basePolicyFile is the same in the folder of the base, for the other layouts.
const basePolicyFile = "policy.yaml"

// Base returns the files around the MachineConfigs in Folder. None of them removes the
// node disruption policy.
func Base(r Request) ([]File, error) {
	manifest, err := r.Policy.Manifest()
	if err != nil {
		return nil, err
	}
	switch r.Layout {
	case ArgoCD:
		return argoCDBase(r, withoutHeader(manifest))
	case RHACM:
		return rhacmBase(r, withoutHeader(manifest))
	default:
		return kustomizeBase(r, manifest)
	}
}

// Overlay returns the files of a cluster, or of a group of clusters, beside the
// configuration in the file config. Without this file, the cluster has the
// configuration of the base.
func Overlay(layout, cluster, config string) ([]File, error) {
	folder := OverlayFolder(cluster)
	if layout == RHACM {
		return rhacmOverlay(folder, cluster, config)
	}
	k := newKustomization("../../base")
	if config != "" {
		k.Patches = []patch{{Path: config}}
	}
	return dumpAll(object{path.Join(folder, kustomizationFile), overlayHeader, k})
}

// CheckCluster requires a name that is valid as a folder, and for RHACM as a part of the
// name of a policy.
func CheckCluster(layout, name string) error {
	limit := 63
	if layout == RHACM { // the propagator joins namespace and name to one label value
		limit = 63 - len(namespace+"."+overlayPolicy(""))
	}
	if len(name) <= limit && regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`).MatchString(name) {
		return nil
	}
	return config.Problem{
		Where: fmt.Sprintf("cluster %q", name), Message: "not a valid name of an overlay",
		Remediation: fmt.Sprintf(`give at most %d lower-case letters, digits and "-"`, limit),
	}
}

// withoutHeader removes the comments at the beginning of a manifest. They describe
// commands that an engine replaces.
func withoutHeader(manifest []byte) []byte {
	for bytes.HasPrefix(manifest, []byte("#")) {
		_, manifest, _ = bytes.Cut(manifest, []byte("\n"))
	}
	return manifest
}

const license = "# SPDX-License-Identifier: Apache-2.0\n#\n"

// object is one file before it is written.
type object struct {
	path, header string
	value        any
}

func dumpAll(objects ...object) ([]File, error) {
	files := make([]File, 0, len(objects))
	for _, o := range objects {
		text, err := dump(o.value)
		if err != nil {
			return nil, fmt.Errorf("cannot write %s: %w", o.path, err)
		}
		files = append(files, File{o.path, append([]byte(license+o.header), text...)})
	}
	return files, nil
}

// stream is a file with several objects.
type stream []any

func dump(value any) ([]byte, error) {
	documents, several := value.(stream)
	if !several {
		documents = stream{value}
	}
	var out []byte
	for i, d := range documents {
		text, err := yaml.Dump(d, yaml.WithIndent(2), yaml.WithCompactSeqIndent(), yaml.WithLineWidth(-1))
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, "---\n"...)
		}
		out = append(out, text...)
	}
	return out, nil
}

// head is what all objects of Kubernetes have.
type head struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Metadata   metadata `yaml:"metadata"`
}

type metadata struct {
	Name        string            `yaml:"name"`
	Namespace   string            `yaml:"namespace,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}
