// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"bytes"
	"embed"
	"fmt"
	"path"
	"text/template"
)

// The folders of the files. Nothing applies SwitchFolder by itself.
const (
	Folder       = "20-certificate"
	SwitchFolder = "30-apiserver"
	// SwitchFile is the script that names the Secret in the APIServer.
	SwitchFile = SwitchFolder + "/switch.sh"
)

// Request describes the certificate of one cluster.
type Request struct {
	API   string   // the API's name
	Names []string // more names; may be empty
	Hosts []string // the names that the service accepts challenges for; none: API only; "*": any name
	Email string   // of the ACME account; may be empty
	// Issuer is LetsEncrypt, Staging or the URL of an ACME directory.
	Issuer  string
	Profile string // of the CA; may be empty
	// Wave is the sync wave of Argo CD; empty without Argo CD.
	Wave string
	// Kustomize requests a kustomization.yaml in Folder.
	Kustomize bool
}

// File is one file. Its path uses slashes.
type File struct {
	Path string
	Text []byte
}

//go:embed templates switch.sh
var sources embed.FS

// values are the parts of the templates that are not constant.
type values struct {
	Request
	limits

	All                     []string // names
	Name, Secret, Directory string
}

// Files returns the files. The problems of the request are in the error.
func Files(r Request) ([]File, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	v := r.values()
	names := []string{"cert-manager.yaml", "issuer.yaml", "certificate.yaml"}
	if r.Kustomize {
		names = append(names, "kustomization.yaml")
	}
	var files []File
	for _, name := range names {
		text, err := execute(name, v)
		if err != nil {
			return nil, err
		}
		files = append(files, File{path.Join(Folder, name), text})
	}
	script, err := sources.ReadFile("switch.sh")
	if err != nil {
		return nil, fmt.Errorf("cannot read switch.sh: %w", err)
	}
	return append(files, File{SwitchFile, script}), nil
}

func execute(name string, v values) ([]byte, error) {
	t, err := template.ParseFS(sources, "templates/"+name+".tmpl")
	var out bytes.Buffer
	if err == nil {
		err = t.Execute(&out, v)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot write %s: %w", name, err)
	}
	return out.Bytes(), nil
}

// values returns what the templates need. The names of the issuers are no usual ones, so that no
// ClusterIssuer of others is replaced. The certificates of the staging CA get a Secret of their own, and
// never replace the ones of production.
func (r Request) values() values {
	issuer := r.issuer()
	v := values{Request: r, limits: profiles()[r.Profile], All: r.all(), Name: "api-" + issuer, Secret: "api-certificate"}
	if v.Directory = namedIssuers()[issuer]; v.Directory == "" {
		v.Name, v.Directory = "api-acme", issuer
	}
	if issuer == Staging {
		v.Secret += "-staging"
	}
	return v
}
