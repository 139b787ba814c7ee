// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"

	"go.yaml.in/yaml/v4"
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
}

// Ingress describes where the router listens.
type Ingress struct {
	Removed       bool     // no router is deployed
	ListenAddress []string // addresses and link names; empty: all addresses of the host
	HTTP, HTTPS   uint16
}

// rawConfig holds the keys of the configuration that are used here.
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
	return parse(dir, files)
}

// parse merges the files as MicroShift does. Keys match in any case, because it unmarshals JSON.
func parse(dir string, files []file) (Config, error) {
	merged := make(map[string]any)
	for _, f := range files {
		var keys map[string]any
		loader, err := yaml.NewLoader(bytes.NewReader(f.text), yaml.WithUniqueKeys(false))
		if err == nil {
			err = loader.Load(&keys) // only the first document counts
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return Config{}, fmt.Errorf("MicroShift's %s is invalid: %w", f.path, err)
		}
		merged = mergePatch(merged, keys)
	}
	var raw rawConfig
	var c Config
	text, err := json.Marshal(merged)
	if err == nil {
		err = describeTypeError(json.Unmarshal(text, &raw))
	}
	if err == nil {
		c, err = raw.validate()
	}
	if err != nil {
		return Config{}, fmt.Errorf("MicroShift's configuration in %s is invalid: %w", dir, err)
	}
	return c, nil
}

// describeTypeError adds the key to a JSON type error, whose text names Go types.
func describeTypeError(err error) error {
	var e *json.UnmarshalTypeError
	if errors.As(err, &e) && e.Field != "" {
		return fmt.Errorf("%s contains a value of type %s; it must be of type %v", e.Field, e.Value, e.Type.Kind())
	}
	return err
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

// validate converts the keys to typed values. Empty values count as absent, as in MicroShift
// (incorporateUserSettings).
func (w *rawConfig) validate() (Config, error) {
	c := Default()
	c.HostnameOverride = w.Node.HostnameOverride
	c.SubjectAltNames, c.NamedCertificates = w.APIServer.SubjectAltNames, w.APIServer.NamedCertificates
	if w.DNS.BaseDomain != "" {
		c.BaseDomain = w.DNS.BaseDomain
	}
	var problems []error
	address := func(into *netip.Addr, key, text string, reachable bool) {
		if text == "" {
			return
		}
		a, err := netip.ParseAddr(text)
		switch *into = a.Unmap(); {
		case err != nil || a.Zone() != "":
			problems = append(problems, fmt.Errorf("%s is %q, which is not an address", key, text))
		case reachable && !into.IsGlobalUnicast():
			problems = append(problems, fmt.Errorf("%s is %v, which other hosts cannot reach", key, *into))
		}
	}
	address(&c.NodeIP, "node.nodeIP", w.Node.NodeIP, true)
	address(&c.NodeIPv6, "node.nodeIPv6", w.Node.NodeIPv6, true)
	address(&c.AdvertiseAddress, "apiServer.advertiseAddress", w.APIServer.AdvertiseAddress, false)
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
		return nil, fmt.Errorf("%s has %d entries; at most one per address family is allowed", key, len(texts))
	}
	var out []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Addr().Is4In6() {
			return nil, fmt.Errorf("%s contains %q, which is not a network such as 10.43.0.0/16", key, text)
		}
		out = append(out, p.Masked())
	}
	if len(out) == maxNetworks && out[0].Addr().Is4() == out[1].Addr().Is4() {
		return nil, fmt.Errorf("%s has two networks of one address family", key)
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
		return in, fmt.Errorf("ingress.status is %q; allowed values are Managed and Removed", w.Ingress.Status)
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
			return in, fmt.Errorf("ingress.ports.%s is %d; allowed values are 1 to 65535", p.key, *p.value)
		}
		*p.into = uint16(*p.value)
	}
	return in, nil
}
