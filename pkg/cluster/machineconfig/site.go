// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"bytes"
	"cmp"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/httpfield"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
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
	sources       []string // source files other than the configuration
}

func (s Site) resolve(sources fs.FS, now time.Time) (found resolvedSite, err error) {
	configuration, accepted, err := readConfiguration(sources, s.Config)
	if err != nil {
		return found, err
	}
	var problems [3]error
	if s.TrustedCA != nil {
		found.bundle, found.notes, problems[0] = s.readBundle(accepted, now)
	}
	var cluster clusterSettings
	if s.Cluster != nil {
		cluster, problems[1] = s.Cluster.resolve()
	}
	var settings []setting
	settings, problems[2] = s.settings(configuration.Name, accepted, cluster.domain, &found)
	if err := errors.Join(problems[:]...); err != nil {
		return found, err
	}
	if s.Cluster != nil {
		settings = append(settings, cluster.settings()...)
		found.notes = append(found.notes, cluster.note())
		found.sources = s.Cluster.fileNames()
	}
	found.configuration, err = compose(configuration, s.Config != nil, settings)
	return found, err
}

// readBundle returns the usable part of the bundle in the ConfigMap. It fails if a host
// would trust none of the certificates.
func (s Site) readBundle(accepted config.Config, now time.Time) (bundle []byte, notes []string, err error) {
	name := s.TrustedCA.Name
	if accepted.Upstream.TrustedCA != bundlePath {
		return nil, nil, problem(name, "the configuration has upstream.trustedCA: "+accepted.Upstream.TrustedCA,
			"remove that key: the bundle is written to "+bundlePath)
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

// settings returns the settings of the egress proxy, and the name in the certificate of the
// routers; domain is what the cluster's objects contain. path is the file with the configuration.
func (s Site) settings(
	path string, accepted config.Config, domain string, found *resolvedSite,
) (all []setting, err error) {
	for _, name := range accepted.InternalHosts() {
		hint := findings.New(findings.HostsInternalName, findings.Values{"path": path, "name": name})
		found.notes = append(found.notes, hint.String())
	}
	if api := s.apiName(domain); api != "" && len(accepted.Hosts) > 0 && !slices.Contains(accepted.Hosts, api) {
		found.notes = append(found.notes,
			fmt.Sprintf("hosts in %s does not contain %s: challenges for the API's own name get 400", path, api))
	}
	if s.Proxy != nil {
		if all, err = s.egressProxySettings(accepted, found); err != nil {
			return nil, err
		}
	}
	domain, err = s.ingressDomain(accepted, domain)
	switch {
	case err != nil || len(accepted.Upstream.VerifyNames) > 0:
	case domain != "":
		all = append(all, setting{keys: []string{"upstream", "verifyNames"}, value: []string{"*.apps." + domain}})
	case s.withTLS(accepted):
		found.notes = append(found.notes,
			"the certificate of the ingress must be for the API's name, but routers usually have one for *.apps of the "+
				"cluster's domain: use --cluster-domain (CLUSTER_DOMAIN of make)")
	}
	return all, err
}

// egressProxySettings returns the accepted proxy of the cluster, which replaces the node's
// file.
func (s Site) egressProxySettings(accepted config.Config, found *resolvedSite) (all []setting, err error) {
	proxy, err := readEgressProxy(*s.Proxy)
	if err != nil {
		return nil, err
	}
	if accepted.EgressProxy.Upstream == config.EgressNever {
		found.notes = append(found.notes,
			"hosts do not use the proxy unless the configuration sets egressProxy.upstream: auto")
	}
	if len(accepted.EgressProxy.ReadinessEndpoints) == 0 {
		found.notes = append(found.notes,
			"the configuration has no egressProxy.readinessEndpoints: hosts accept the proxy without testing it")
	}
	if proxy.hasCredentials() {
		found.notes = append(found.notes,
			"the URL of the proxy contains credentials, and so does the MachineConfig: without --proxy, hosts read the "+
				"same settings from /etc/mco/proxy.env")
	}
	return proxy.settings(s.Proxy.Name), nil
}

// withTLS reports whether the routers are reached with TLS.
func (s Site) withTLS(c config.Config) bool {
	return s.TrustedCA != nil || c.Upstream.Scheme == config.SchemeHTTPS
}

// apiName returns the API's name; empty if the domain of the cluster is not known.
func (s Site) apiName(ofObjects string) string {
	if domain := cmp.Or(canonicalDomain(s.Domain), ofObjects); isClusterDomain(domain) {
		return "api." + domain
	}
	return ""
}

func canonicalDomain(text string) string { return strings.ToLower(strings.TrimSuffix(text, ".")) }

// ingressDomain returns the domain of the cluster, whose routers have a certificate for *.apps
// of it, or an empty text. The domain from the cluster's objects is used only for routers with
// TLS.
func (s Site) ingressDomain(c config.Config, ofObjects string) (string, error) {
	if domain := canonicalDomain(s.Domain); isClusterDomain(domain) {
		return domain, nil
	}
	if s.Domain != "" {
		return "", problem(fmt.Sprintf("cluster domain %q", s.Domain), "not the domain of a cluster",
			"give the parent domain of api. and apps., such as cluster.example.com: \"oc get dns cluster -o "+
				"jsonpath={.spec.baseDomain}\" prints it")
	}
	for _, host := range c.Hosts {
		if rest, is := strings.CutPrefix(host, "api."); is {
			return rest, nil
		}
	}
	if !s.withTLS(c) {
		return "", nil
	}
	return ofObjects, nil
}

// isClusterDomain reports whether a lower-case name can be the domain of a cluster,
// with api. and apps. below it.
func isClusterDomain(name string) bool {
	return httpfield.IsHostName(name) && !strings.Contains(name, "_") && strings.Contains(name, ".") &&
		!strings.HasPrefix(name, "api.") && !strings.HasPrefix(name, "apps.")
}

// readConfiguration returns the administrator's configuration, or the default one, if a
// host would accept it.
func readConfiguration(sources fs.FS, given *Input) (Input, config.Config, error) {
	if given == nil {
		text, err := fs.ReadFile(sources, configFile)
		if err != nil {
			return Input{}, config.Config{}, fmt.Errorf("cannot read the default configuration: %w", err)
		}
		given = &Input{Name: configFile, Text: text}
	}
	accepted, err := config.Parse(given.Name, given.Text)
	return *given, accepted, err
}

// APINames returns the API's name, as Render finds it, and the names that the configuration
// accepts challenges for; none: the API's name only. The API's name is empty if the domain of
// the cluster is not known.
func (s Site) APINames(sources fs.FS) (api string, hosts []string, err error) {
	configuration, accepted, err := readConfiguration(sources, s.Config)
	if err != nil {
		return "", nil, err
	}
	var cluster clusterSettings
	if s.Cluster != nil {
		if cluster, err = s.Cluster.resolve(); err != nil {
			return "", nil, err
		}
	}
	domain, err := s.ingressDomain(accepted, cluster.domain)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", configuration.Name, err)
	}
	hosts = accepted.Hosts
	if accepted.AnyHost {
		hosts = []string{"*"}
	}
	if domain != "" {
		return "api." + domain, hosts, nil
	}
	return s.apiName(cluster.domain), hosts, nil
}
