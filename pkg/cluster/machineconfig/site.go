// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/servingcerts"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
)

// Site holds the settings of one cluster.
type Site struct {
	// Config is the configuration of the hosts; nil selects the default one.
	Config *Input
	// TrustedCA is a ConfigMap with the CAs of the ingress certificate, as "oc get
	// configmap -o yaml" prints it, or nil.
	TrustedCA *Input
	// Proxy is the Proxy of the cluster, as "oc get proxy cluster -o yaml" prints it,
	// or nil.
	Proxy *Input
	// Domain is the domain of the cluster, such as cluster.example.com. Routers present
	// a certificate for *.apps of it. If it is empty, the domain comes from the first
	// api.<domain> in the configuration's hosts, or else, for routers with TLS, from
	// the URL of the cluster.
	Domain string
	// Cluster provides the mode and the VIPs, or is nil.
	Cluster *ClusterObjects
}

type resolvedSite struct {
	configuration Input
	bundle        []byte   // CA certificates; nil for none
	notes         []string // information for the administrator
	warnings      []string // input that was left out or that harms the cluster
	sources       []string // source files other than the configuration
}

func (s Site) resolve(sources fs.FS, now time.Time) (resolvedSite, error) {
	configuration, err := readConfiguration(sources, s.Config)
	problems := []error{err}
	var found resolvedSite
	if s.TrustedCA != nil {
		var err error
		found.bundle, found.notes, err = s.readBundle(configuration, now)
		problems = append(problems, err)
	}
	var cluster clusterSettings
	var clusterErr error
	if s.Cluster != nil {
		cluster, clusterErr = s.Cluster.resolve()
	}
	edits, err := s.edits(configuration, cluster.apiDomain, &found)
	problems = append(problems, err, clusterErr)
	if s.Cluster != nil && clusterErr == nil {
		clusterEdits, err := s.clusterEdits(configuration, cluster, &found)
		edits, problems = append(edits, clusterEdits...), append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return resolvedSite{}, err
	}
	found.configuration, err = edits.applyTo(configuration)
	return found, err
}

func (s Site) clusterEdits(configuration Input, w clusterSettings, found *resolvedSite) (configEdits, error) {
	if s.Config != nil {
		if err := w.checkConflicts(configuration); err != nil {
			return nil, err
		}
	}
	found.notes = append(found.notes, w.notes()...)
	found.warnings = append(found.warnings, w.warnings...)
	found.sources = s.Cluster.fileNames()
	return w.edits(), nil
}

// readBundle returns the usable part of the bundle in the ConfigMap. It fails if a host
// would trust none of the certificates.
func (s Site) readBundle(configuration Input, now time.Time) (bundle []byte, notes []string, err error) {
	name := s.TrustedCA.Name
	if accepted, err := config.Parse(configuration.Name, configuration.Text); err == nil && accepted.Upstream.TrustedCA != bundlePath {
		return nil, nil, problem(name, "the configuration has upstream.trustedCA: "+accepted.Upstream.TrustedCA, "remove that key: the bundle is written to "+bundlePath)
	}
	text, err := bundleFromConfigMap(*s.TrustedCA)
	if err != nil {
		return nil, nil, err
	}
	filtered, err := trust.Filter(text, now)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %s: %w", name, bundleKey, err)
	}
	for _, left := range filtered.Skipped {
		notes = append(notes, fmt.Sprintf("%s: %s: left out: %v", name, bundleKey, left))
	}
	if more := filtered.SkippedCount - len(filtered.Skipped); more > 0 {
		notes = append(notes, fmt.Sprintf("%s: %s: left out: %d more", name, bundleKey, more))
	}
	return encodeBundle(filtered.Roots), notes, nil
}

// encodeBundle returns a bundle of the trusted certificates only, so that hosts report
// no skipped ones: default-ingress-cert also contains the certificate of the routers.
func encodeBundle(roots []trust.Certificate) []byte {
	var text bytes.Buffer
	for _, c := range roots {
		fmt.Fprintf(&text, "# %s\n", c.Subject)
		text.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.DER}))
	}
	return text.Bytes()
}

// edits returns the edits of the configuration; derived is the domain in the cluster's
// objects, if there is one.
func (s Site) edits(configuration Input, derived apiDomain, found *resolvedSite) (c configEdits, err error) {
	accepted, err := config.Parse(configuration.Name, configuration.Text)
	if err != nil {
		return nil, nil //nolint:nilerr // already reported
	}
	for _, hint := range servingcerts.HostHints(configuration.Name, accepted) {
		found.warnings = append(found.warnings, hint.String())
	}
	if s.Proxy != nil {
		if c, err = s.egressProxyEdits(configuration, accepted, found); err != nil {
			return nil, err
		}
	}
	withTLS := s.TrustedCA != nil || accepted.Upstream.Scheme == config.SchemeHTTPS
	names, err := s.certificateNames(accepted)
	switch given := accepted.Upstream.VerifyNames; {
	case err != nil:
		return nil, err
	case len(given) > 0 && s.Domain != "" && !slices.Contains(given, names):
		found.notes = append(found.notes, "the configuration sets upstream.verifyNames, so --cluster-domain has no effect")
	case len(given) > 0:
	case names != "":
		c = append(c, configEdit{keys: []string{"upstream", "verifyNames"}, list: []string{names}})
	case withTLS && derived.name != "":
		c = append(c, configEdit{keys: []string{"upstream", "verifyNames"}, list: []string{appsWildcard(derived.name)}})
		found.notes = append(found.notes, fmt.Sprintf("%s: the certificate of the ingress may be for %s, from %s; use --cluster-domain (CLUSTER_DOMAIN of make) for another domain", derived.file, appsWildcard(derived.name), apiServerURLPath))
	case withTLS:
		found.notes = append(found.notes, "the certificate of the ingress must be for the API's name, but routers usually have one for *.apps of the cluster's domain: use --cluster-domain (CLUSTER_DOMAIN of make)")
	}
	return c, nil
}

// egressProxyEdits returns the edits that put the accepted proxy of the cluster into
// the configuration, in place of the node's file.
func (s Site) egressProxyEdits(configuration Input, accepted config.Config, found *resolvedSite) (configEdits, error) {
	proxy, err := readEgressProxy(*s.Proxy)
	if err != nil {
		return nil, err
	}
	file := []string{"egressProxy", "file"}
	root, _ := parseMapping(configuration.Text)
	if at := nodeAt(root, file); at != nil && accepted.EgressProxy.File != config.Default().EgressProxy.File {
		return nil, conflictProblem(configuration.Name, file, at, s.Proxy.Name)
	}
	if accepted.EgressProxy.Upstream == config.EgressNever {
		found.notes = append(found.notes, "hosts do not use the proxy unless the configuration sets egressProxy.upstream: auto")
	}
	if len(accepted.EgressProxy.ReadinessEndpoints) == 0 {
		found.notes = append(found.notes, "the configuration has no egressProxy.readinessEndpoints: hosts accept the proxy without testing it")
	}
	if proxy.hasCredentials() {
		found.notes = append(found.notes, "the URL of the proxy contains credentials, and so does the MachineConfig: without --proxy, hosts read the same settings from /etc/mco/proxy.env")
	}
	return append(proxy.edits(s.Proxy.Name), configEdit{keys: file, remove: true}), nil
}

// certificateNames returns the name in the certificate of the routers, or an empty
// text.
func (s Site) certificateNames(c config.Config) (string, error) {
	domain := strings.ToLower(strings.TrimSuffix(s.Domain, "."))
	if s.Domain != "" {
		if !isClusterDomain(domain) {
			return "", problem(fmt.Sprintf("cluster domain %q", s.Domain), "not the domain of a cluster", "give the parent domain of api. and apps., such as cluster.example.com: \"oc get dns cluster -o jsonpath={.spec.baseDomain}\" prints it")
		}
		return appsWildcard(domain), nil
	}
	for _, host := range c.Hosts {
		if rest, is := strings.CutPrefix(host, "api."); is {
			return appsWildcard(rest), nil
		}
	}
	return "", nil
}

// appsWildcard returns the name in the certificate of a cluster's routers.
func appsWildcard(domain string) string { return "*.apps." + domain }

// isClusterDomain reports whether a lower-case name can be the domain of a cluster,
// with api. and apps. below it.
func isClusterDomain(name string) bool {
	return config.IsHostName(name) && !strings.Contains(name, "_") && strings.Contains(name, ".") &&
		!strings.HasPrefix(name, "api.") && !strings.HasPrefix(name, "apps.")
}

// readConfiguration returns the administrator's configuration, or the default one, if a
// host would accept it.
func readConfiguration(sources fs.FS, given *Input) (Input, error) {
	if given == nil {
		text, err := fs.ReadFile(sources, configFile)
		if err != nil {
			return Input{}, fmt.Errorf("cannot read the default configuration: %w", err)
		}
		given = &Input{Name: configFile, Text: text}
	}
	_, err := config.Parse(given.Name, given.Text)
	return Input{Name: given.Name, Text: bytes.Clone(given.Text)}, err
}
