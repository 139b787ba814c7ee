// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/spf13/pflag"

	sources "github.com/http01-proxyd/http01-proxyd"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/certificate"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/chain"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/layout"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
)

// certificateFlags are the flags of render for the certificate of the API.
type certificateFlags struct {
	on                               bool
	email, issuer, profile, existing string
	names                            []string
}

func (c *certificateFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&c.on, "certificate", false,
		"also render the issuer and the Certificate of the API, and the script that switches to it")
	flags.StringVar(&c.email, "email", "", "e-mail `ADDRESS` of the account at the CA; default: none")
	flags.StringVar(&c.issuer, "issuer", certificate.LetsEncrypt,
		"`CA`: "+certificate.LetsEncrypt+", "+certificate.Staging+" or the https URL of an ACME directory")
	flags.StringVar(&c.profile, "profile", "",
		"`NAME` of the CA's profile; of Let's Encrypt: classic, tlsserver or shortlived; default: the CA's choice")
	flags.StringSliceVar(&c.names, "name", nil,
		"one more `NAME` in the certificate, also in hosts of the configuration; repeatable; default: the API's name only")
	flags.StringVar(&c.existing, "existing", "",
		"`FILE` (- is standard input) with the APIServer and the Certificates of the cluster, "+
			"which must agree; default: not compared")
}

// validateCertificate rejects flags that need --certificate, or exclude it.
func (f renderFlags) validateCertificate(given func(flag string) bool) error {
	if !f.certificate.on {
		for _, flag := range []string{"email", "issuer", "profile", "name", "existing"} {
			if given(flag) {
				return cli.UsageError("--" + flag + " requires --certificate")
			}
		}
		return nil
	}
	for _, flag := range []string{"fcos", "show"} {
		if given(flag) {
			return cli.UsageError("--certificate cannot be used with --" + flag)
		}
	}
	switch {
	case f.out == "-":
		return cli.UsageError("--certificate requires a folder: give one with --output-dir")
	case len(f.clusters) > 1:
		return cli.UsageError("--certificate is for one cluster: give one --cluster in each command")
	case f.layout != "" && len(f.clusters) == 0:
		return cli.UsageError("--certificate with --layout requires --cluster: the base is for all clusters")
	}
	return nil
}

// certificateOutputs returns the files of the certificate, if they are requested.
func (f renderFlags) certificateOutputs(site machineconfig.Site, in io.Reader) ([]outputFile, error) {
	if !f.certificate.on {
		return nil, nil
	}
	api, hosts, err := site.APINames(sources.Files)
	if err != nil {
		return nil, fmt.Errorf("cannot find the API's name: %w", err)
	}
	request := certificate.Request{
		API: api, Hosts: hosts, Names: f.certificate.names, Email: f.certificate.email, Issuer: f.certificate.issuer,
		Profile: f.certificate.profile, Kustomize: f.layout != "",
	}
	if f.layout == layout.ArgoCD {
		request.Wave = "1" // after the MachineConfigs
	}
	files, err := certificate.Files(request)
	if err != nil {
		return nil, err
	}
	if err := f.compare(request, site, in); err != nil {
		return nil, err
	}
	folder := ""
	if len(f.clusters) > 0 {
		folder = layout.OverlayFolder(f.clusters[0])
	}
	outputs := make([]outputFile, 0, len(files))
	for _, file := range files {
		outputs = append(outputs, policyOutput(path.Join(folder, file.Path), file.Text))
	}
	return outputs, nil
}

// compare compares the request with the objects of the cluster that are given.
func (f renderFlags) compare(request certificate.Request, site machineconfig.Site, in io.Reader) error {
	existing, err := readInput(in, f.certificate.existing)
	if err != nil {
		return err
	}
	var files []machineconfig.Input
	if existing != nil {
		files = append(files, *existing)
	}
	if site.Cluster != nil && site.Cluster.APIServer != nil {
		files = append(files, *site.Cluster.APIServer)
	}
	kinds := map[string]string{
		"APIServer": "config.openshift.io/v1", "Infrastructure": "config.openshift.io/v1",
		"Certificate": "cert-manager.io/v1",
	}
	read, err := machineconfig.ReadObjects(files, kinds,
		`give the output of "oc get apiserver/cluster certificate/api-certificate -n openshift-config `+
			`--ignore-not-found -o yaml"`)
	if err != nil {
		return fmt.Errorf("cannot compare with the cluster: %w", err)
	}
	var problems []error
	for _, o := range read.Objects {
		var apiServer chain.Object
		var issued certificate.Existing
		switch o.Kind {
		case "APIServer":
			problems = append(problems, o.Load(&apiServer), request.CheckAPIServer(o.File, apiServer))
		case "Certificate":
			problems = append(problems, o.Load(&issued), request.CheckExisting(o.File, issued))
		}
	}
	return errors.Join(problems...)
}
