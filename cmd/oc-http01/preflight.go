// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/layout"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/preflight"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// preflightFlags are the flags of preflight.
type preflightFlags struct {
	pool string
	out  cli.Output
}

func preflightCommand() *cobra.Command {
	var f preflightFlags
	c := &cobra.Command{
		Use: "preflight FILE|DIR...", Short: "find out whether a change of the MachineConfigs would reboot nodes",
		Long: `Examine objects of the cluster and rendered files, before MachineConfigs are applied or
deleted. The command changes nothing, and does not connect to a cluster. A FILE has one
object or one List; - is standard input. A DIR is the output of "oc http01 render", in
any layout.

It reports:

  - entries of the node disruption policy that are missing, not observed or changed,
    and a policy without room for them
  - a MachineOSConfig: releases before 4.20 reboot the nodes for every change
  - a paused or degraded pool
  - MachineConfigs of others with files or units of this service, or with our names
  - the MachineConfig of cert-manager-operator's HTTP01Proxy
  - api-int in the named certificates of the APIServer, a name in two of them, and more
    of them than its operator accepts
  - a named certificate whose Secret is not usable or not among the given ones, if there
    are Secrets

The ClusterVersion has the release. Without rendered files, the entries are those that
this version of the service needs.

A List does not show which kinds were queried, so MachineOSConfigs need a file of their
own, even if it is an empty List. From OpenShift 4.20, the file is optional. OpenShift
4.17 may not have that kind: without the file, the exit code is then 4.

The exit code is 3 if there is a problem. It is 4 if no problem was found, but an object
is missing. With 1 or 2, nothing was examined.`,
		Example: `  oc get machineconfiguration/cluster mcp/master clusterversion/version apiserver/cluster \
    -o yaml > cluster.yaml
  oc get machineosconfig -o yaml > machineosconfigs.yaml
  oc get mc --selector=machineconfiguration.openshift.io/role=master -o yaml > machineconfigs.yaml
  oc http01 preflight cluster.yaml machineosconfigs.yaml machineconfigs.yaml rendered

  # one List of all other kinds
  oc get machineconfiguration,mcp,mc,clusterversion,apiserver -o yaml |
    oc http01 preflight - machineosconfigs.yaml rendered

  # also the Secrets of the named certificates, without their keys
  oc get secret --namespace=openshift-config --field-selector=type=kubernetes.io/tls -o json |
    jq 'del(.items[].data["tls.key"])' > secrets.json
  oc http01 preflight cluster.yaml machineosconfigs.yaml machineconfigs.yaml secrets.json rendered`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, names []string) error {
			if err := validatePreflight(names); err != nil {
				return err
			}
			result, err := f.run(c, names)
			if err != nil {
				return indentedError{err}
			}
			return cli.OfOutcome(result.Outcome)
		},
	}
	f.out.Add(c, cli.Text, cli.JSON, cli.YAML)
	c.Flags().StringVar(&f.pool, "pool", machineconfig.DefaultPool, "`NAME` of the MachineConfigPool")
	return c
}

func validatePreflight(names []string) error {
	fromStdin := 0
	for _, name := range names {
		if name == stdin {
			fromStdin++
		}
	}
	switch {
	case len(names) == 0:
		return cli.UsageError("no file given: name the objects of the cluster and the rendered files, " +
			"or - for standard input")
	case fromStdin > 1:
		return cli.UsageError("only one file can be read from standard input")
	}
	return nil
}

func (f preflightFlags) run(c *cobra.Command, names []string) (report.Preflight, error) {
	files, err := readObjectFiles(c.InOrStdin(), names)
	if err != nil {
		return report.Preflight{}, err
	}
	objects, err := preflight.Parse(files)
	if err != nil {
		return report.Preflight{}, err
	}
	result := preflight.Check(objects, f.pool)
	if err := f.out.Write(c.OutOrStdout(), result, terminal.Preflight(result)); err != nil {
		return report.Preflight{}, fmt.Errorf("cannot print the result: %w", err)
	}
	return result, nil
}

// readObjectFiles reads the files, and those that render wrote to the folders.
func readObjectFiles(in io.Reader, names []string) (files []machineconfig.Input, err error) {
	var problems []error
	for _, name := range names {
		paths := []string{name}
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			if paths = renderedFilesIn(name); len(paths) == 0 {
				problems = append(problems, fmt.Errorf(
					"%s has no rendered files: name the folder of \"oc http01 render\", or files", name))
			}
		}
		for _, path := range paths {
			file, err := readInput(in, path)
			if err != nil {
				problems = append(problems, err)
				continue
			}
			files = append(files, *file)
		}
	}
	return files, errors.Join(problems...)
}

// renderedFilesIn returns the objects that render wrote to a folder, in any layout. A release
// contains other objects in the same folder.
func renderedFilesIn(dir string) (all []string) {
	for _, folder := range layout.Folders() {
		entries, _ := os.ReadDir(filepath.Join(dir, folder))
		for _, e := range entries {
			if isMachineConfig(e.Name()) || e.Name() == layout.PolicyName {
				all = append(all, filepath.Join(dir, folder, e.Name()))
			}
		}
	}
	return all
}
