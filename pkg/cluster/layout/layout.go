// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/certificate"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/disruption"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

// The layouts.
const (
	Kustomize = "kustomize"
	ArgoCD    = "argocd"
	RHACM     = "rhacm"
)

// DefaultCLIImage contains oc. Version skew is no problem for "oc get".
const DefaultCLIImage = "registry.redhat.io/openshift4/ose-cli-rhel9:v4.17"

// Names returns the names of all layouts.
func Names() []string { return []string{Kustomize, ArgoCD, RHACM} }

// File is one file of a layout. Its path uses slashes.
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
	// ImagePolicy is the file of the ClusterImagePolicy; empty: none.
	ImagePolicy string
	// CLIImage is the container image with oc, for ArgoCD.
	CLIImage string
}

// Folder returns the folder of the base's MachineConfigs and of the ClusterImagePolicy. Base does not return them.
func Folder(layout string) string {
	if layout == RHACM {
		return "manifests"
	}
	return "base"
}

// Folders returns the folders of a rendering that can contain rendered objects: its top, the
// folder with the policy, and the folders with a base.
func Folders() []string { return []string{".", path.Dir(PolicyFile), Folder(Kustomize), Folder(RHACM)} }

// PolicyName is the name of the file with the node disruption policy, in any layout.
const PolicyName = "policy.yaml"

// OverlayFolder returns the folder of an overlay.
func OverlayFolder(cluster string) string { return path.Join("overlays", cluster) }

// PolicyFile is the file with the node disruption policy in the layout Kustomize. It needs its
// own folder, because kustomize cannot wait between two objects.
const PolicyFile = disruption.PolicyFile

// templates are the files of the layouts, below a folder for each set.
//
//go:embed templates
var templates embed.FS

// values are the parts of the templates that are not constant.
type values struct {
	Service, Config, CLIImage, Cluster string
	Certificate                        string // its folder; empty: none
	ImagePolicy                        string // its file; empty: none

	Entries  string // of the node disruption policy
	Expected string // the lines that the hook of Argo CD requires
	Hash     string // of the entries
}

// Base returns the files around the MachineConfigs in Folder. None of them removes the
// node disruption policy.
func Base(r Request) ([]File, error) {
	v := values{
		Service: r.Service, Config: r.Config, CLIImage: r.CLIImage, ImagePolicy: r.ImagePolicy,
		Entries: r.Policy.Lists(), Expected: expectedEntries(r.Policy),
	}
	sum := sha256.Sum256([]byte(v.Entries + "\n"))
	v.Hash = hex.EncodeToString(sum[:])[:8]
	switch r.Layout {
	case ArgoCD:
		return execute(ArgoCD, "", v, "base/policy.yaml", "base/kustomization.yaml", "base/hook.yaml")
	case RHACM:
		return execute(RHACM, "", v, "kustomization.yaml", "hub.yaml", "policy-generator.yaml",
			"manifests/in-force.yaml", "manifests/policy.yaml")
	default:
		files, err := execute(Kustomize, "", v, "10-policy/kustomization.yaml", "base/kustomization.yaml")
		own := []File{{PolicyFile, r.Policy.Manifest()}, {disruption.ScriptFile, disruption.Script()}}
		return slices.Concat(own, files), err
	}
}

// Overlay returns the files of a cluster, or of a group of clusters, beside the configuration
// in the file config. Without this file, the cluster uses the configuration of the base. An
// overlay of ArgoCD or RHACM applies the folder with the certificate, if there is one.
func Overlay(layout, cluster, config string, withCertificate bool) ([]File, error) {
	v := values{Cluster: cluster, Config: config}
	if withCertificate && layout != Kustomize {
		v.Certificate = certificate.Folder
	}
	if layout == RHACM {
		return execute("rhacm-overlay", OverlayFolder(cluster), v, "kustomization.yaml", "policy-generator.yaml")
	}
	return execute("overlay", OverlayFolder(cluster), v, "kustomization.yaml")
}

// execute returns files of a set of templates, in a folder.
func execute(set, folder string, v values, names ...string) (files []File, err error) {
	functions := template.FuncMap{"indent": func(columns int, text string) string {
		margin := strings.Repeat(" ", columns)
		return margin + strings.ReplaceAll(text, "\n", "\n"+margin)
	}}
	for _, name := range names {
		source := name + ".tmpl"
		var out bytes.Buffer
		t, err := template.New(path.Base(source)).Funcs(functions).ParseFS(templates, path.Join("templates", set, source))
		if err == nil {
			err = t.Execute(&out, v)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot write %s: %w", name, err)
		}
		files = append(files, File{path.Join(folder, name), out.Bytes()})
	}
	return files, nil
}

// expectedEntries returns the lines that the hook of Argo CD requires.
func expectedEntries(p disruption.Policy) string {
	var lines []string
	for _, e := range slices.Concat(p.Files, p.Units) {
		words := []string{e.Key()}
		for _, a := range e.Actions {
			words = append(words, a.Type+"="+a.Service())
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return strings.Join(lines, "\n")
}

// CheckCluster requires a name that is valid as a folder, and for RHACM as a part of the
// name of a policy.
func CheckCluster(layout, name string) error {
	limit := 63
	if layout == RHACM { // the propagator joins namespace and name to one label value
		limit = 63 - len("http01-proxyd.http01-proxyd-config-")
	}
	if len(name) <= limit && regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`).MatchString(name) {
		return nil
	}
	return config.Problem{
		Where: fmt.Sprintf("cluster %q", name), Message: "not a valid name of an overlay",
		Remediation: fmt.Sprintf(`give at most %d lower-case letters, digits and "-"`, limit),
	}
}
