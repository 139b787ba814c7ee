// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	sources "github.com/http01-proxyd/http01-proxyd"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/disruption"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
)

// renderFlags are the flags of render.
type renderFlags struct {
	image, config, pool, sums, out, binary, format string
	trustedCA, proxy, domain                       string
	apiServer, http01Proxy, infrastructure         string
	layout, cliImage, signatureKey                 string
	clusters                                       []string
	allowTag, allowDisabled, layered, fcos, show   bool
	certificate                                    certificateFlags
}

func renderCommand() *cobra.Command {
	var f renderFlags
	c := &cobra.Command{
		Use: "render", Short: "render the MachineConfigs of a pool, and the policy that they require",
		Long: `Render the files of a pool. Their names begin with the order of application.

  10-policy/policy.yaml              entries of the node disruption policy
  10-policy/apply.sh                 the script that applies the entries
  97-image-policy.yaml               with --signature-policy: the ClusterImagePolicy
  98-POOL-http01-proxyd.yaml         units and installer
  98-POOL-http01-proxyd-config.yaml  the hosts' configuration
  20-certificate                     with --certificate: what cert-manager issues the
                                     certificate of the API from
  30-apiserver/switch.sh             with --certificate: the script that checks the
                                     certificate and names it in the APIServer

The configuration is validated as on a host. If there is a problem, no file is
written.`,
		Example: `  # for the master pool, with the default configuration, into ./machineconfigs
  oc http01 render --image quay.io/me/http01-proxyd@sha256:...

  # with a configuration, and the binaries' checksums of a release
  oc http01 render --image quay.io/me/http01-proxyd@sha256:... \
    --config my.yaml --sums dist/SHA256SUMS --output-dir rendered

  # with the CAs of the ingress certificate, and the egress proxy
  oc get configmap default-ingress-cert -n openshift-config-managed -o yaml > ca.yaml
  oc get proxy cluster -o yaml > proxy.yaml
  oc http01 render --image quay.io/me/http01-proxyd@sha256:... \
    --trusted-ca ca.yaml --proxy proxy.yaml --cluster-domain cluster.example.com

  # with the settings of the cluster's objects: the mode in an HTTP01Proxy that is
  # kept as a file, and the VIPs of the Infrastructure
  printf '%s\n' 'apiVersion: operator.openshift.io/v1alpha1' 'kind: HTTP01Proxy' \
    'metadata: {name: cluster}' 'spec: {mode: DefaultDeployment}' > http01proxy.yaml
  oc get infrastructure cluster -o yaml > infrastructure.yaml
  oc http01 render --image quay.io/me/http01-proxyd@sha256:... \
    --http01proxy http01proxy.yaml --infrastructure infrastructure.yaml --output-dir rendered

  # with the certificate of the API, by cert-manager from Let's Encrypt
  oc http01 render --image quay.io/me/http01-proxyd@sha256:... --certificate \
    --email ops@example.com --cluster-domain cluster.example.com --output-dir rendered

  # with the policy that nodes pull only images with a signature by this key
  oc http01 render --image quay.io/me/http01-proxyd@sha256:... --signature-policy key.pub

  # print the files that the hosts get, to review or to diff them
  oc http01 render --image quay.io/me/http01-proxyd@sha256:... --show

  # for hosts whose operating system image contains the binary in /usr/bin
  oc http01 render --layered --output-dir rendered

  # a kustomize base for many clusters, and the overlay of one of them
  oc http01 render --image quay.io/me/http01-proxyd@sha256:... --layout kustomize --output-dir fleet
  oc http01 render --layout kustomize --cluster paris1 --config paris1.yaml --output-dir fleet

  # an Ignition configuration for a host without the machine-config-operator
  oc http01 render --fcos --binary bin/http01-proxyd --output-dir rendered`,
		Args: func(_ *cobra.Command, given []string) error {
			if len(given) > 0 {
				return cli.UsageError(fmt.Sprintf("unexpected argument %q: name the image with --image REF", given[0]))
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.validate(c.Flags().Changed); err != nil {
				return err
			}
			if err := f.run(c); err != nil {
				return indentedError{err}
			}
			return nil
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.image, "image", "", "container image with the binary, by digest: `REF` is registry/name@sha256:...")
	flags.StringVar(&f.config, "config", "",
		"`FILE` with the configuration of the service (- is standard input); default: mode: DefaultDeployment")
	flags.StringVar(&f.trustedCA, "trusted-ca", "",
		"`FILE` of a ConfigMap with the CAs of the ingress certificate in the key ca-bundle.crt; default: none")
	flags.StringVar(&f.proxy, "proxy", "",
		"`FILE` of the cluster's Proxy, whose status provides the egress proxy; default: none")
	flags.StringVar(&f.domain, "cluster-domain", "",
		"domain `NAME` of the cluster; default: taken from the first api.NAME in hosts, or from the cluster's objects")
	flags.StringVar(&f.apiServer, "apiserver", "",
		"`FILE` (- is standard input) with the APIServer, which provides the mode; default: none")
	flags.StringVar(&f.http01Proxy, "http01proxy", "",
		"`FILE` (- is standard input) with the HTTP01Proxy, which provides the mode; default: none")
	flags.StringVar(&f.infrastructure, "infrastructure", "",
		"`FILE` (- is standard input) with the Infrastructure, "+
			"whose status provides the VIPs; default: none")
	flags.BoolVar(&f.allowDisabled, "allow-disabled", false,
		"accept objects of the cluster without the settings of the proxy, which disables it; default: reject them")
	flags.StringVar(&f.pool, "pool", machineconfig.DefaultPool, "`NAME` of the MachineConfigPool")
	flags.StringVar(&f.sums, "sums", "",
		"`FILE` with the output of sha256sum for the release binaries, which the installer verifies; default: none")
	flags.StringVar(&f.out, "output-dir", "machineconfigs",
		"`DIR` to write to; - prints the MachineConfigs without the policy")
	flags.BoolVar(&f.allowTag, "allow-tag", false,
		"accept an image by tag: each host runs the image that the tag named when it pulled")
	flags.StringVar(&f.signatureKey, "signature-policy", "",
		"`FILE` with the public key of the image's signatures, for a ClusterImagePolicy of OpenShift 4.20 or later; "+
			"default: no policy")
	flags.BoolVar(&f.layered, "layered", false, "omit the installer: the operating system image contains the binary")
	flags.BoolVar(&f.fcos, "fcos", false, "render an Ignition configuration with the binary, http01-proxyd.ign")
	flags.StringVar(&f.binary, "binary", "", "`FILE` with the Linux binary for the host; required with --fcos")
	flags.BoolVar(&f.show, "show", false,
		"print each file, unit and drop-in that the MachineConfigs write on a host, with path and mode, and write no file")
	f.layoutFlags(flags)
	f.certificate.add(flags)
	cli.OutputFlag(c, &f.format, cli.Text, cli.JSON, cli.YAML)
	return c
}

// validate rejects combinations of flags that contradict each other.
func (f renderFlags) validate(given func(flag string) bool) error {
	excluded := map[string][]string{ // flags without effect
		"fcos":    {"image", "pool", "sums", "allow-tag", "layered", "layout", "signature-policy"},
		"layered": {"image", "sums", "allow-tag", "signature-policy"},
		"cluster": {"image", "sums", "allow-tag", "layered", "cli-image", "signature-policy"}, // the base has them
		"show":    {"fcos", "layout", "output-dir", "output", "signature-policy"},
	}
	for _, option := range []string{"fcos", "layered", "cluster", "show"} {
		for _, other := range excluded[option] {
			if given(option) && given(other) {
				return cli.UsageError(fmt.Sprintf("--%s cannot be used with --%s", other, option))
			}
		}
	}
	switch {
	case f.fcos && f.binary == "":
		return cli.UsageError("--fcos requires --binary FILE")
	case !f.fcos && f.binary != "":
		return cli.UsageError("--binary requires --fcos")
	case f.allowDisabled && !f.givesObjects():
		return cli.UsageError("--allow-disabled requires --apiserver, --http01proxy or --infrastructure")
	case f.signatureKey != "" && f.out == "-":
		return cli.UsageError("--signature-policy requires a folder: give one with --output-dir")
	case f.stdinCount() > 1:
		return cli.UsageError("only one file can be read from standard input")
	case !f.fcos && !f.layered && len(f.clusters) == 0 && f.image == "":
		return cli.UsageError("--image REF is required")
	}
	if err := f.validateCertificate(given); err != nil {
		return err
	}
	return f.validateLayout(given)
}

// givesObjects reports whether a file with objects of the cluster is given.
func (f renderFlags) givesObjects() bool {
	return f.apiServer != "" || f.http01Proxy != "" || f.infrastructure != ""
}

// stdinCount returns the number of files to read from standard input. The objects of
// the cluster may be in one file.
func (f renderFlags) stdinCount() (n int) {
	names := []string{f.config, f.sums, f.binary, f.trustedCA, f.proxy, f.certificate.existing, f.signatureKey}
	if objects := []string{f.apiServer, f.http01Proxy, f.infrastructure}; slices.Contains(objects, stdin) {
		names = append(names, stdin)
	}
	for _, name := range names {
		if name == stdin {
			n++
		}
	}
	return n
}

func (f renderFlags) run(c *cobra.Command) error {
	outputs, err := f.render(c.InOrStdin())
	if err != nil {
		return err
	}
	if err := c.Context().Err(); err != nil {
		return fmt.Errorf("interrupted before any file was written: %w", err)
	}
	if f.show {
		f.printNotes(c.ErrOrStderr(), outputs)
		return showFiles(c.OutOrStdout(), outputs)
	}
	if f.out == "-" {
		if err := printStream(c.OutOrStdout(), outputs); err != nil {
			return err
		}
		f.printNotes(c.ErrOrStderr(), outputs)
		return f.report(c.ErrOrStderr(), outputs, "")
	}
	if !f.fcos { // oc does not read Ignition configurations, and Ignition does not read folders
		if err := checkStaleFiles(f.out, outputs); err != nil {
			return err
		}
	}
	if err := writeFiles(f.out, outputs); err != nil {
		return err
	}
	f.printNotes(c.ErrOrStderr(), outputs)
	return f.report(c.OutOrStdout(), outputs, f.out)
}

// printNotes prints notes that the files do not show.
func (f renderFlags) printNotes(w io.Writer, outputs []outputFile) {
	for _, o := range outputs {
		for _, note := range o.Notes {
			fmt.Fprintln(w, "note: "+note)
		}
	}
	switch {
	case f.image == machineconfig.ExampleImage:
		fmt.Fprintln(w, "note: the output is the documented example, whose image does not exist")
	case f.layered:
		fmt.Fprintln(w,
			`note: a cluster has one policy for all pools. The cluster must use the layered policy (10-policy) before `+
				`these files are applied or deleted. With the policy of the installer, nodes would be degraded, because there `+
				`is no http01-proxyd-install.service to restart`)
	}
}

// readSite reads the settings of the cluster.
func (f renderFlags) readSite(in io.Reader) (machineconfig.Site, error) {
	configuration, configErr := readInput(in, f.config)
	trustedCA, trustedErr := readInput(in, f.trustedCA)
	proxy, proxyErr := readInput(in, f.proxy)
	cluster, clusterErr := f.readCluster(in)
	site := machineconfig.Site{
		Config: configuration, TrustedCA: trustedCA, Proxy: proxy, Domain: f.domain, Cluster: cluster,
	}
	return site, errors.Join(configErr, trustedErr, proxyErr, clusterErr)
}

// readCluster reads the cluster's objects. A file that is given for several objects is
// read once.
func (f renderFlags) readCluster(in io.Reader) (*machineconfig.ClusterObjects, error) {
	if !f.givesObjects() {
		return nil, nil //nolint:nilnil // not requested
	}
	read := make(map[string]*machineconfig.Input)
	var problems []error
	for _, name := range []string{f.apiServer, f.http01Proxy, f.infrastructure} {
		if _, done := read[name]; !done {
			input, err := readInput(in, name)
			read[name], problems = input, append(problems, err)
		}
	}
	return &machineconfig.ClusterObjects{
		APIServer: read[f.apiServer], HTTP01Proxy: read[f.http01Proxy], Infrastructure: read[f.infrastructure],
		AllowDisabled: f.allowDisabled,
	}, errors.Join(problems...)
}

// render creates all files in memory.
func (f renderFlags) render(in io.Reader) ([]outputFile, error) {
	site, siteErr := f.readSite(in)
	if f.fcos {
		binary, err := readInput(in, f.binary)
		if err := errors.Join(siteErr, err); err != nil {
			return nil, err
		}
		o, err := machineconfig.RenderIgnition(sources.Files, site, *binary)
		return []outputFile{{Object: o}}, err
	}
	sums, err := readInput(in, f.sums)
	if err := errors.Join(siteErr, err); err != nil {
		return nil, err
	}
	objects, err := machineconfig.Render(sources.Files, machineconfig.Request{
		Image: f.image, AllowTag: f.allowTag, Pool: f.pool, Site: site, Sums: sums, Layered: f.layered || len(f.clusters) > 0,
	})
	if err != nil {
		return nil, err
	}
	policy := disruption.InstallerPolicy()
	if f.layered {
		policy = disruption.LayeredPolicy()
	}
	var outputs []outputFile
	for _, o := range objects {
		outputs = append(outputs, outputFile{Object: o, machineConfig: true})
	}
	issued, err := f.certificateOutputs(site, in)
	if err != nil {
		return nil, err
	}
	signatures, err := f.imagePolicy(in)
	if err != nil {
		return nil, err
	}
	outputs = append(signatures, outputs...)
	if f.layout != "" {
		outputs, err = f.arrange(policy, outputs)
		return append(outputs, issued...), err
	}
	if f.out == "-" { // the policy is applied first, so it is not part of the stream
		return outputs, nil
	}
	// In a folder of its own: "oc apply -f" applies all files of a folder. No file removes
	// the policy, because tools for GitOps apply folders recursively.
	return slices.Concat([]outputFile{
		policyOutput(disruption.PolicyFile, policy.Manifest()), policyOutput(disruption.ScriptFile, disruption.Script()),
	}, issued, outputs), nil
}

// imagePolicy returns the ClusterImagePolicy, if it is requested.
func (f renderFlags) imagePolicy(in io.Reader) ([]outputFile, error) {
	key, err := readInput(in, f.signatureKey)
	if key == nil || err != nil {
		return nil, err
	}
	o, err := machineconfig.ImagePolicy(f.image, *key)
	return []outputFile{{Object: o}}, err
}

// policyOutput returns a file that is not a MachineConfig.
func policyOutput(file string, text []byte) outputFile {
	return outputFile{Object: machineconfig.Object{File: file, Text: text, Size: len(text)}}
}
