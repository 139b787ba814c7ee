// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/http01-proxyd/http01-proxyd/internal/httpfield"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

// Config is the configuration in MicroShift's files, with the defaults that do not depend on
// the host. It is immutable.
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

// port is a type because messages print it in their own form.
type port uint16

// APINames returns the names by which external clients reach the API server, once each. They
// are complete unless there is an error: the service does not read certificates, so names that
// are only in a certificate are unknown.
func (c Config) APINames() (names []string, err error) {
	listed := slices.Clone(c.SubjectAltNames)
	for _, n := range c.NamedCertificates {
		if len(n.Names) == 0 {
			err = errors.New("an entry of apiServer.namedCertificates in MicroShift's configuration has no names")
		}
		listed = append(listed, n.Names...)
	}
	if c.BaseDomain != defaultBaseDomain { // the default one is in no DNS
		listed = append(listed, "api."+c.BaseDomain)
	}
	for _, name := range listed {
		name = strings.ToLower(strings.TrimSuffix(name, "."))
		_, notAddress := netip.ParseAddr(name)
		public := notAddress != nil && strings.Contains(name, ".") && httpfield.IsHostName(name)
		if public && !config.IsInternalAPIName(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		err = cmp.Or(err, errors.New("MicroShift's configuration contains no name of the API"))
	}
	return names, err
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
			HTTP  port `json:"http"`
			HTTPS port `json:"https"`
		} `json:"ports"`
	} `json:"ingress"`
}

// defaultBaseDomain is MicroShift's default (dnsDefaults).
const defaultBaseDomain = "example.com"

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
		c, err = raw.values()
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
		want := cmp.Or(e.Type.Name(), e.Type.Kind().String())
		return fmt.Errorf("%s contains a value of type %s; it must be of type %s", e.Field, e.Value, want)
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

// values converts the keys to typed values. Empty values count as absent, as in MicroShift
// (incorporateUserSettings), which validates the others when it starts.
func (w *rawConfig) values() (c Config, err error) {
	c = Config{
		HostnameOverride: w.Node.HostnameOverride, BaseDomain: cmp.Or(w.DNS.BaseDomain, defaultBaseDomain),
		SubjectAltNames: w.APIServer.SubjectAltNames, NamedCertificates: w.APIServer.NamedCertificates,
		Ingress: Ingress{
			Removed: w.Ingress.Status == "Removed",
			HTTP:    uint16(cmp.Or(w.Ingress.Ports.HTTP, 80)), HTTPS: uint16(cmp.Or(w.Ingress.Ports.HTTPS, 443)),
		},
	}
	for _, text := range w.Ingress.ListenAddress {
		if text != "" { // a list that contains only empty strings equals an empty list
			c.Ingress.ListenAddress = append(c.Ingress.ListenAddress, text)
		}
	}
	var problems []error
	for _, a := range []struct {
		into      *netip.Addr
		key, text string
	}{
		{&c.NodeIP, "node.nodeIP", w.Node.NodeIP},
		{&c.NodeIPv6, "node.nodeIPv6", w.Node.NodeIPv6},
		{&c.AdvertiseAddress, "apiServer.advertiseAddress", w.APIServer.AdvertiseAddress},
	} {
		addr, err := netip.ParseAddr(a.text)
		*a.into = addr.Unmap()
		switch {
		case a.text == "":
		case err != nil || addr.Zone() != "":
			problems = append(problems, fmt.Errorf("%s is %q, which is not an address", a.key, a.text))
		case a.into != &c.AdvertiseAddress && !a.into.IsGlobalUnicast():
			problems = append(problems, fmt.Errorf("%s is %v, which other hosts cannot reach", a.key, *a.into))
		}
	}
	for _, n := range []struct {
		into  *[]netip.Prefix
		key   string
		texts []string
	}{
		{&c.ServiceNetwork, "network.serviceNetwork", w.Network.ServiceNetwork},
		{&c.ClusterNetwork, "network.clusterNetwork", w.Network.ClusterNetwork},
	} {
		for _, text := range n.texts {
			p, err := netip.ParsePrefix(text)
			if err != nil || p.Addr().Is4In6() {
				problems = append(problems, fmt.Errorf("%s contains %q, which is not a network such as 10.43.0.0/16", n.key, text))
			}
			*n.into = append(*n.into, p.Masked())
		}
	}
	return c, errors.Join(problems...)
}
