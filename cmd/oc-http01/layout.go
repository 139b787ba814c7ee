// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/disruption"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/layout"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
)

// maxClusters bounds the overlays of one command.
const maxClusters = 10000

func (f *renderFlags) layoutFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.layout, "layout", "",
		"`NAME` of the layout for a GitOps engine: "+strings.Join(layout.Names(), ", ")+"; default: plain files")
	flags.StringSliceVar(&f.clusters, "cluster", nil,
		"`NAME` of a cluster or of a group, whose overlay is rendered instead of the base; repeatable; default: none")
	flags.StringVar(&f.cliImage, "cli-image", layout.DefaultCLIImage,
		"container image `REF` with oc, for the hook of --layout argocd")
}

// validateLayout rejects unknown layouts and invalid names of clusters.
func (f renderFlags) validateLayout(given func(flag string) bool) error {
	switch {
	case f.layout == "" && len(f.clusters) > 0:
		return cli.UsageError("--cluster requires --layout")
	case f.layout != layout.ArgoCD && given("cli-image"):
		return cli.UsageError("--cli-image requires --layout " + layout.ArgoCD)
	case f.layout == "":
		return nil
	case !slices.Contains(layout.Names(), f.layout):
		return cli.UsageError(fmt.Sprintf("--layout %q: use %s", f.layout, strings.Join(layout.Names(), ", ")))
	case f.out == "-":
		return cli.UsageError("--layout requires a folder: give one with --output-dir")
	case f.layout == layout.ArgoCD && f.cliImage == "":
		return cli.UsageError("--cli-image REF must not be empty")
	case len(f.clusters) > maxClusters:
		return cli.UsageError(fmt.Sprintf(
			"--cluster has %d names: give at most %d in one command", len(f.clusters), maxClusters))
	}
	for _, name := range f.clusters {
		if err := layout.CheckCluster(f.layout, name); err != nil {
			return err
		}
	}
	return nil
}

// arrange returns the objects and the files around them: the base, or the overlays of clusters. The
// last two objects are the MachineConfigs of the service and of its configuration.
func (f renderFlags) arrange(policy disruption.Policy, objects []outputFile) ([]outputFile, error) {
	service, config := objects[len(objects)-2], objects[len(objects)-1]
	if len(f.clusters) > 0 {
		return f.overlays(config)
	}
	request := layout.Request{
		Layout: f.layout, Policy: policy, Service: service.File, Config: config.File, CLIImage: f.cliImage,
	}
	if f.signatureKey != "" {
		request.ImagePolicy = machineconfig.ImagePolicyFile
	}
	files, err := layout.Base(request)
	if err != nil {
		return nil, err
	}
	outputs := make([]outputFile, 0, len(objects)+len(files))
	for _, o := range objects {
		outputs = append(outputs, o.in(layout.Folder(f.layout)))
	}
	return append(outputs, layoutOutputs(files)...), nil
}

// overlays returns the overlays of all clusters. They get their own configuration if an input
// for it is given.
func (f renderFlags) overlays(config outputFile) ([]outputFile, error) {
	own := f.config+f.trustedCA+f.proxy+f.domain != "" || f.givesObjects()
	if f.layout == layout.RHACM && !own {
		return nil, cli.UsageError(
			"--cluster with --layout rhacm requires a configuration: a cluster without one needs no overlay")
	}
	var outputs []outputFile
	for _, name := range f.clusters {
		file := ""
		if own {
			file = config.File
			outputs = append(outputs, config.in(layout.OverlayFolder(name)))
		}
		files, err := layout.Overlay(f.layout, name, file, f.certificate.on)
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, layoutOutputs(files)...)
	}
	return outputs, nil
}

// in returns the file in a folder.
func (o outputFile) in(folder string) outputFile {
	o.File = path.Join(folder, o.File)
	return o
}

func layoutOutputs(files []layout.File) []outputFile {
	outputs := make([]outputFile, 0, len(files))
	for _, file := range files {
		outputs = append(outputs, policyOutput(file.Path, file.Text))
	}
	return outputs
}
