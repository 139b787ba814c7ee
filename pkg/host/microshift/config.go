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

// Config is what a MicroShift's files say, and its defaults where they say
// nothing and these do not hang on the host. It is a value that nobody changes.
type Config struct {
	HostnameOverride string
	BaseDomain       string // of cluster names: api.<BaseDomain>

	NodeIP   netip.Addr // not valid: the host's own
	NodeIPv6 netip.Addr // of a dual stack; not valid: the host's own

	ServiceNetwork []netip.Prefix // empty: by the family of the node's address
	ClusterNetwork []netip.Prefix // empty: the same; what has both families is a dual stack

	AdvertiseAddress  netip.Addr // not valid: computed from the service network
	SubjectAltNames   []string   // of the API server's external certificate; empty: the host's names
	NamedCertificates []NamedCertificate

	Ingress Ingress
}

// NamedCertificate is a certificate that the API server presents to who asks for
// one of its names; without names, for those in the certificate.
type NamedCertificate struct {
	Names    []string `json:"names"`
	CertPath string   `json:"certPath"`
	KeyPath  string   `json:"keyPath"`
}

// Ingress says where the router listens.
type Ingress struct {
	Removed       bool     // there is none
	ListenAddress []string // addresses and names of links; empty: all of the host's
	HTTP, HTTPS   uint16
}

// rawConfig is as much of the configuration as matters here. Its keys are found as
// MicroShift finds them, which unmarshals JSON too: in any case.
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

// defaultBaseDomain is MicroShift's (dnsDefaults).
const defaultBaseDomain = "example.com"

// Default is a MicroShift without files.
func Default() Config {
	return Config{BaseDomain: defaultBaseDomain, Ingress: Ingress{HTTP: 80, HTTPS: 443}}
}

// Read reads the configuration in dir. Without files it is the default one.
func Read(dir string) (Config, error) {
	files, _, err := readFiles(dir)
	if err != nil {
		return Config{}, err
	}
	return parse(files)
}

// parse judges the files together.
func parse(files []file) (Config, error) {
	_, c, err := parseRaw(files)
	return c, err
}

// parseRaw is parse, and returns besides what the files say in its own words:
// MicroShift does not start with any mistake, so the first one is enough to tell.
func parseRaw(files []file) (rawConfig, Config, error) {
	refused := func(of string, err error) (rawConfig, Config, error) {
		return rawConfig{}, Config{}, fmt.Errorf("MicroShift's %s is not taken: %w", of, err)
	}
	files = slices.DeleteFunc(slices.Clone(files), func(f file) bool { return len(bytes.TrimSpace(f.text)) == 0 })
	merged, of, err := mergeFiles(files)
	if err != nil {
		return refused(of, err)
	}
	text, err := json.Marshal(merged)
	if err != nil {
		return refused("configuration", err)
	}
	var w rawConfig
	if err = json.Unmarshal(text, &w); err != nil {
		return refused("configuration", addLocations(files, describeTypeError(err)))
	}
	c, err := w.validate()
	if err != nil {
		return refused("configuration", addLocations(files, err))
	}
	return w, c, nil
}

// mergeFiles merges what files say, or tells which of them is at fault. As in MicroShift
// a list in place of keys only counts, and is refused, when no keys come after it, and
// any other value only when it is alone.
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
			all, of = value, f.path // with its nulls
		default:
			err = errNotMapping
		}
		if err != nil {
			return nil, f.path, err
		}
	}
	merged, is := all.(map[string]any)
	if !is && all != nil {
		return nil, of, errNotMapping
	}
	return merged, "", nil
}

var errNotMapping = errors.New("it is no mapping: write keys and values")

// errNoKeys is about comments alone, say, which MicroShift merges with nothing
// (MergePatch of evanphx/json-patch), and takes when it is the only file with a text.
var errNoKeys = errors.New("it has no keys, and MicroShift does not start when other files are beside such a one: delete it")

// validate turns what is written into addresses. Empty values count as absent, as in
// MicroShift (incorporateUserSettings).
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
			problems = append(problems, invalidValue(key, "%q, which is no address", text))
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
			problems = append(problems, invalidValue(node.key, "%v, by which no other host reaches this one", node.addr))
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

// maxNetworks is one for each family (validateNetworkStack).
const maxNetworks = 2

func parsePrefixes(key string, texts []string) ([]netip.Prefix, error) {
	if len(texts) > maxNetworks {
		return nil, &valueError{key, fmt.Sprintf("has %d entries, and one for each family is the most", len(texts))}
	}
	var out []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Addr().Is4In6() {
			return nil, &valueError{key, fmt.Sprintf("has %q, which is no network such as 10.43.0.0/16", text)}
		}
		out = append(out, p.Masked())
	}
	if len(out) == maxNetworks && out[0].Addr().Is4() == out[1].Addr().Is4() {
		return nil, &valueError{key, "has two networks of one family"}
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
		return in, invalidValue("ingress.status", "%q, and may be Managed or Removed", w.Ingress.Status)
	}
	// A list of empty texts is given, and means what an empty one does.
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
			return in, invalidValue("ingress.ports."+p.key, "%d, and may be 1 to 65535", *p.value)
		}
		*p.into = uint16(*p.value)
	}
	return in, nil
}
