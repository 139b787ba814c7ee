// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// Config is the configuration in MicroShift's files, with those of its defaults that do not
// depend on the host. It is immutable.
type Config struct {
	HostnameOverride string
	BaseDomain       string // of cluster names: api.<BaseDomain>

	NodeIP   netip.Addr // invalid: detected on the host
	NodeIPv6 netip.Addr // in a dual stack; invalid: detected on the host

	ServiceNetwork []netip.Prefix // empty: default of the node's address family
	ClusterNetwork []netip.Prefix // empty: the node's address family; two families make a dual stack

	AdvertiseAddress  netip.Addr // invalid: computed from the service network
	SubjectAltNames   []string   // of the API server's external certificate; empty: the host's names
	NamedCertificates []NamedCertificate

	Ingress Ingress
}

// NamedCertificate is a certificate that the API server presents to clients that request one
// of its names. Without Names, the names in the certificate apply.
type NamedCertificate struct {
	Names    []string `json:"names"`
	CertPath string   `json:"certPath"`
	KeyPath  string   `json:"keyPath"`
}

// Ingress describes where the router listens.
type Ingress struct {
	Removed       bool     // no router is deployed
	ListenAddress []string // addresses and link names; empty: all addresses of the host
	HTTP, HTTPS   uint16
}

// rawConfig holds the keys of the configuration that are used here. Keys match in any case,
// as in MicroShift, which unmarshals JSON too.
type rawConfig struct {
	DNS struct {
		BaseDomain string `json:"baseDomain"`
	} `json:"dns"`
	Network struct {
		ClusterNetwork []string `json:"clusterNetwork"`
		ServiceNetwork []string `json:"serviceNetwork"`
	} `json:"network"`
	Node struct {
		HostnameOverride string `json:"hostnameOverride"`
		NodeIP           string `json:"nodeIP"`
		NodeIPv6         string `json:"nodeIPv6"`
	} `json:"node"`
	APIServer struct {
		SubjectAltNames   []string           `json:"subjectAltNames"`
		AdvertiseAddress  string             `json:"advertiseAddress"`
		NamedCertificates []NamedCertificate `json:"namedCertificates"`
	} `json:"apiServer"`
	Ingress struct {
		Status        string   `json:"status"`
		ListenAddress []string `json:"listenAddress"`
		Ports         struct {
			HTTP  *int `json:"http"`
			HTTPS *int `json:"https"`
		} `json:"ports"`
	} `json:"ingress"`
}

// defaultBaseDomain is MicroShift's default (dnsDefaults).
const defaultBaseDomain = "example.com"

// Default returns the configuration of a MicroShift without files.
func Default() Config {
	return Config{BaseDomain: defaultBaseDomain, Ingress: Ingress{HTTP: 80, HTTPS: 443}}
}

// Read reads the configuration in dir. Without files it returns the default.
func Read(dir string) (Config, error) {
	files, _, err := readFiles(dir)
	if err != nil {
		return Config{}, err
	}
	return parse(files)
}

func parse(files []file) (Config, error) {
	_, c, err := parseRaw(files)
	return c, err
}

// parseRaw is parse and also returns the merged keys. Every error is fatal for MicroShift, so
// parseRaw stops at the first file that it cannot merge.
func parseRaw(files []file) (rawConfig, Config, error) {
	rejected := func(of string, err error) (rawConfig, Config, error) {
		return rawConfig{}, Config{}, fmt.Errorf("MicroShift's %s is invalid: %w", of, err)
	}
	files = slices.DeleteFunc(slices.Clone(files), func(f file) bool { return len(bytes.TrimSpace(f.text)) == 0 })
	merged, of, err := mergeFiles(files)
	if err != nil {
		return rejected(of, err)
	}
	text, err := json.Marshal(merged)
	if err != nil {
		return rejected("configuration", err)
	}
	var w rawConfig
	if err = json.Unmarshal(text, &w); err != nil {
		return rejected("configuration", addLocations(files, describeTypeError(err)))
	}
	c, err := w.validate()
	if err != nil {
		return rejected("configuration", addLocations(files, err))
	}
	return w, c, nil
}

// mergeFiles merges the files. With an error, of names the file that caused it. As in
// MicroShift, a list in place of a mapping is an error only if no mapping follows it. Any
// other value is an error unless it is the only one.
func mergeFiles(files []file) (merged map[string]any, of string, err error) {
	var p normalizer
	var all any
	for i, f := range files {
		value, err := decode(f.text, &p)
		_, isList := value.([]any)
		keys, isMapping := value.(map[string]any)
		switch {
		case err != nil:
		case value == nil && len(files) > 1:
			err = errNoKeys
		case i > 0 && isMapping:
			before, _ := all.(map[string]any)
			all = mergePatch(before, keys)
		case i == 0 || isList:
			all, of = value, f.path // including its null values
		default:
			err = errNotMapping
		}
		if err != nil {
			return nil, f.path, err
		}
	}
	merged, ok := all.(map[string]any)
	if !ok && all != nil {
		return nil, of, errNotMapping
	}
	return merged, "", nil
}

// mergePatch applies a JSON merge patch (RFC 7386) to the content of earlier files. Mappings
// are merged, all other values including lists are replaced, and null removes a key.
func mergePatch(target, patch map[string]any) map[string]any {
	if target == nil {
		target = make(map[string]any, len(patch))
	}
	for name, value := range patch {
		switch v := value.(type) {
		case nil:
			delete(target, name)
		case map[string]any:
			before, _ := target[name].(map[string]any)
			target[name] = mergePatch(before, v)
		default:
			target[name] = v
		}
	}
	return target
}

var errNotMapping = errors.New("the content is not a mapping: write keys and values")

// errNoKeys applies to files that contain only comments, for example. MicroShift cannot merge
// such a file with others (MergePatch of evanphx/json-patch). It accepts the file if no other
// file has content.
var errNoKeys = errors.New("the file has no keys, and MicroShift does not start with such a file beside others: delete it")

// validate converts the keys to typed values. Empty values count as absent, as in MicroShift
// (incorporateUserSettings).
func (w *rawConfig) validate() (Config, error) {
	c := Default()
	c.HostnameOverride, c.SubjectAltNames, c.NamedCertificates = w.Node.HostnameOverride, w.APIServer.SubjectAltNames, w.APIServer.NamedCertificates
	if w.DNS.BaseDomain != "" {
		c.BaseDomain = w.DNS.BaseDomain
	}
	var problems []error
	address := func(into *netip.Addr, key, text string) {
		if text == "" {
			return
		}
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" {
			problems = append(problems, invalidValue(key, "%q, which is not an address", text))
		}
		*into = a.Unmap()
	}
	address(&c.NodeIP, "node.nodeIP", w.Node.NodeIP)
	address(&c.NodeIPv6, "node.nodeIPv6", w.Node.NodeIPv6)
	for _, node := range []struct {
		key  string
		addr netip.Addr
	}{{"node.nodeIP", c.NodeIP}, {"node.nodeIPv6", c.NodeIPv6}} {
		if node.addr.IsValid() && !node.addr.IsGlobalUnicast() {
			problems = append(problems, invalidValue(node.key, "%v, which other hosts cannot reach", node.addr))
		}
	}
	address(&c.AdvertiseAddress, "apiServer.advertiseAddress", w.APIServer.AdvertiseAddress)
	var err error
	if c.ServiceNetwork, err = parsePrefixes("network.serviceNetwork", w.Network.ServiceNetwork); err != nil {
		problems = append(problems, err)
	}
	if c.ClusterNetwork, err = parsePrefixes("network.clusterNetwork", w.Network.ClusterNetwork); err != nil {
		problems = append(problems, err)
	}
	if c.Ingress, err = w.validateIngress(); err != nil {
		problems = append(problems, err)
	}
	return c, errors.Join(problems...)
}

// maxNetworks is one per family (validateNetworkStack).
const maxNetworks = 2

func parsePrefixes(key string, texts []string) ([]netip.Prefix, error) {
	if len(texts) > maxNetworks {
		return nil, &valueError{key, fmt.Sprintf("has %d entries; at most one per address family is allowed", len(texts))}
	}
	var out []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Addr().Is4In6() {
			return nil, &valueError{key, fmt.Sprintf("contains %q, which is not a network such as 10.43.0.0/16", text)}
		}
		out = append(out, p.Masked())
	}
	if len(out) == maxNetworks && out[0].Addr().Is4() == out[1].Addr().Is4() {
		return nil, &valueError{key, "has two networks of one address family"}
	}
	return out, nil
}

func (w *rawConfig) validateIngress() (Ingress, error) {
	in := Ingress{HTTP: 80, HTTPS: 443}
	switch w.Ingress.Status {
	case "", "Managed":
	case "Removed":
		in.Removed = true
	default:
		return in, invalidValue("ingress.status", "%q; allowed values are Managed and Removed", w.Ingress.Status)
	}
	// A list that contains only empty strings equals an empty list.
	in.ListenAddress = slices.DeleteFunc(slices.Clone(w.Ingress.ListenAddress), func(s string) bool { return s == "" })
	if len(in.ListenAddress) == 0 {
		in.ListenAddress = nil
	}
	for _, p := range []struct {
		into  *uint16
		key   string
		value *int
	}{{&in.HTTP, "http", w.Ingress.Ports.HTTP}, {&in.HTTPS, "https", w.Ingress.Ports.HTTPS}} {
		if p.value == nil {
			continue
		}
		if *p.value < 1 || *p.value > 65535 {
			return in, invalidValue("ingress.ports."+p.key, "%d; allowed values are 1 to 65535", *p.value)
		}
		*p.into = uint16(*p.value)
	}
	return in, nil
}
