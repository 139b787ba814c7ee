// SPDX-License-Identifier: Apache-2.0

package microshift_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
)

// writeFiles writes files into a new MicroShift directory.
func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

var sameAddr = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

var samePrefix = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })

func TestRead(t *testing.T) {
	t.Parallel()
	type files = map[string]string
	for name, tt := range map[string]struct {
		files  files
		change func(*microshift.Config) // applied to the default
	}{
		"no files":                {nil, nil},
		"an empty file":           {files{"config.yaml": ""}, nil},
		"only spaces":             {files{"config.yaml": " \n\n"}, nil},
		"only comments":           {files{"config.yaml": "# node:\n#   nodeIP: 192.0.2.9\n"}, nil},
		"keys without values":     {files{"config.yaml": "node:\napiServer:\n  subjectAltNames:\ningress:\n"}, nil},
		"unknown keys":            {files{"config.yaml": "etcd: {memoryLimitMB: 7}\nnode: {x: y}\nnew: [1]\n"}, nil},
		"empty values":            {files{"config.yaml": `{node: {nodeIP: "", nodeIPv6: ""}, dns: {baseDomain: ""}, apiServer: {advertiseAddress: "", subjectAltNames: []}, ingress: {status: "", listenAddress: [], ports: {}}}`}, nil},
		"a list of empty strings": {files{"config.yaml": `ingress: {listenAddress: ["", ""]}`}, nil},
		"node IPs": {
			files{"config.yaml": "node: {nodeIP: 192.0.2.9, nodeIPv6: 2001:DB8::9}"},
			func(c *microshift.Config) { c.NodeIP, c.NodeIPv6 = addr("192.0.2.9"), addr("2001:db8::9") },
		},
		"an IPv4-mapped node IP": {
			files{"config.yaml": "node: {nodeIP: '::ffff:192.0.2.9'}"},
			func(c *microshift.Config) { c.NodeIP = addr("192.0.2.9") },
		},
		"host name and base domain": {
			files{"config.yaml": "dns: {baseDomain: ms.example}\nnode: {hostnameOverride: Edge}"},
			func(c *microshift.Config) { c.BaseDomain, c.HostnameOverride = "ms.example", "Edge" },
		},
		"keys in other case": {
			files{"config.yaml": "NODE: {NodeIp: 192.0.2.9}"},
			func(c *microshift.Config) { c.NodeIP = addr("192.0.2.9") },
		},
		"JSON": {
			files{"config.yaml": `{"node": {"nodeIP": "192.0.2.9"}}`},
			func(c *microshift.Config) { c.NodeIP = addr("192.0.2.9") },
		},
		"the first document counts": {
			files{"config.yaml": "node: {nodeIP: 192.0.2.9}\n---\nnode: {nodeIP: 192.0.2.10}\n"},
			func(c *microshift.Config) { c.NodeIP = addr("192.0.2.9") },
		},
		"a key twice": {
			files{"config.yaml": "node: {nodeIP: 192.0.2.8}\nnode: {nodeIP: 192.0.2.9}\n"},
			func(c *microshift.Config) { c.NodeIP = addr("192.0.2.9") },
		},
		"aliases": {
			files{"config.yaml": "a: &a 192.0.2.9\nnode: {nodeIP: *a}\n"},
			func(c *microshift.Config) { c.NodeIP = addr("192.0.2.9") },
		},
		"networks": {
			files{"config.yaml": "network: {clusterNetwork: [10.42.0.0/16, fd01::/48], serviceNetwork: [10.43.7.1/16, " +
				"fd02::/112]}"},
			func(c *microshift.Config) {
				c.ClusterNetwork = []netip.Prefix{netip.MustParsePrefix("10.42.0.0/16"), netip.MustParsePrefix("fd01::/48")}
				c.ServiceNetwork = []netip.Prefix{netip.MustParsePrefix("10.43.0.0/16"), netip.MustParsePrefix("fd02::/112")}
			},
		},
		"API server": {
			files{"config.yaml": "apiServer: {advertiseAddress: 192.0.2.77, subjectAltNames: [api.example], " +
				"namedCertificates: [{certPath: /c, keyPath: /k, names: [a.example]}]}"},
			func(c *microshift.Config) {
				c.AdvertiseAddress, c.SubjectAltNames = addr("192.0.2.77"), []string{"api.example"}
				c.NamedCertificates = []microshift.NamedCertificate{{Names: []string{"a.example"}, CertPath: "/c"}}
			},
		},
		"ingress": {
			files{"config.yaml": "ingress: {status: Removed, listenAddress: [eth1, '', 192.0.2.10], ports: {http: 8080, " +
				"https: 8443}}"},
			func(c *microshift.Config) {
				c.Ingress = microshift.Ingress{
					Removed: true, ListenAddress: []string{"eth1", "192.0.2.10"}, HTTP: 8080,
					HTTPS: 8443,
				}
			},
		},
		"managed": {files{"config.yaml": "ingress: {status: Managed}"}, nil},
		"a later file wins": {
			files{
				"config.yaml": "node: {nodeIP: 192.0.2.1}", "config.d/10.yaml": "node: {nodeIP: 192.0.2.2}",
				"config.d/20.yaml": "node: {nodeIP: 192.0.2.9}",
			},
			func(c *microshift.Config) { c.NodeIP = addr("192.0.2.9") },
		},
		"no main file": {
			files{"config.d/10.yaml": "node: {nodeIP: 192.0.2.9}"},
			func(c *microshift.Config) { c.NodeIP = addr("192.0.2.9") },
		},
		"mappings merge": {
			files{"config.yaml": "node: {nodeIP: 192.0.2.9}", "config.d/10.yaml": "node: {nodeIPv6: '2001:db8::9'}"},
			func(c *microshift.Config) { c.NodeIP, c.NodeIPv6 = addr("192.0.2.9"), addr("2001:db8::9") },
		},
		"lists are replaced": {
			files{
				"config.yaml":      "apiServer: {subjectAltNames: [a, b]}",
				"config.d/10.yaml": "apiServer: {subjectAltNames: [c]}",
			},
			func(c *microshift.Config) { c.SubjectAltNames = []string{"c"} },
		},
		"an empty list replaces a list": {
			files{"config.yaml": "apiServer: {subjectAltNames: [a, b]}", "config.d/10.yaml": "apiServer: {subjectAltNames: []}"},
			nil,
		},
		"null removes a key": {files{
			"config.yaml":      "node: {nodeIP: 192.0.2.1}",
			"config.d/10.yaml": "node: {nodeIP: null}",
		}, nil},
		"null removes a mapping": {files{"config.yaml": "node: {nodeIP: 192.0.2.1}", "config.d/10.yaml": "node: ~"}, nil},
		"a mapping after null": {
			files{"config.yaml": "node:", "config.d/10.yaml": "node: {nodeIP: 192.0.2.9}"},
			func(c *microshift.Config) { c.NodeIP = addr("192.0.2.9") },
		},
		"an empty drop-in": {
			files{"config.yaml": "node: {nodeIP: 192.0.2.9}", "config.d/10.yaml": "\n"},
			func(c *microshift.Config) { c.NodeIP = addr("192.0.2.9") },
		},
		"other extensions": {files{
			"config.d/10.yml": "node: {nodeIP: 192.0.2.9}", "config.d/x": "y: [",
			"config.d/a.yaml.bak": "y: [",
		}, nil},
		"a hidden file": {
			files{"config.d/.yaml": "node: {nodeIP: 192.0.2.9}"},
			func(c *microshift.Config) { c.NodeIP = addr("192.0.2.9") },
		},
		"directories in order": {
			files{"config.d/10/z.yaml": "node: {nodeIP: 192.0.2.1}", "config.d/10.yaml": "node: {nodeIP: 192.0.2.9}"},
			func(c *microshift.Config) { c.NodeIP = addr("192.0.2.9") },
		},
		"files in lexical order": {
			files{"config.d/9.yaml": "node: {nodeIP: 192.0.2.9}", "config.d/10.yaml": "node: {nodeIP: 192.0.2.1}"},
			func(c *microshift.Config) { c.NodeIP = addr("192.0.2.9") },
		},
		"IPv6 only": {
			files{"config.yaml": "network: {clusterNetwork: [fd01::/48], serviceNetwork: [fd02::/112]}"},
			func(c *microshift.Config) {
				c.ClusterNetwork = []netip.Prefix{netip.MustParsePrefix("fd01::/48")}
				c.ServiceNetwork = []netip.Prefix{netip.MustParsePrefix("fd02::/112")}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := microshift.Config{BaseDomain: "example.com", Ingress: microshift.Ingress{HTTP: 80, HTTPS: 443}}
			if tt.change != nil {
				tt.change(&want)
			}
			got, err := microshift.Read(writeFiles(t, tt.files))
			must(t, err)
			if len(got.SubjectAltNames) == 0 {
				got.SubjectAltNames = nil
			}
			if diff := cmp.Diff(want, got, sameAddr, samePrefix); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadErrors(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, want string }{
		"not YAML": {"a: [", "config.yaml is invalid: "},
		"a list":   {"- a", "config.yaml is invalid: "},
		"a string": {"node", "config.yaml is invalid: "},
		"a number for a string": {
			"node: {nodeIP: 7}",
			" is invalid: node.nodeIP contains a value of type number; it must be of type string",
		},
		"a string for a list": {
			"apiServer: {subjectAltNames: a}",
			"apiServer.subjectAltNames contains a value of type string; it must be of type slice",
		},
		"a string for a port": {
			"ingress: {ports: {http: '80'}}",
			"ingress.ports.http contains a value of type string; it must be of type port",
		},
		"port 65536": {
			"ingress: {ports: {https: 65536}}",
			"ingress.ports.https contains a value of type number 65536",
		},
		"loopback": {
			"node: {nodeIP: 127.0.0.1}",
			`node.nodeIP is 127.0.0.1, which other hosts cannot reach`,
		},
		"link-local": {
			"node: {nodeIPv6: 'fe80::1'}",
			`node.nodeIPv6 is fe80::1, which other hosts cannot reach`,
		},
		"not an address":            {"node: {nodeIP: edge}", `node.nodeIP is "edge", which is not an address`},
		"a zone":                    {"node: {nodeIPv6: 'fe80::1%eth0'}", "node.nodeIPv6"},
		"invalid advertise address": {"apiServer: {advertiseAddress: 10.44.0.0/32}", "apiServer.advertiseAddress"},
		"not a network":             {"network: {serviceNetwork: [10.43.0.0]}", "not a network such as 10.43.0.0/16"},
		"not a number":              {"a: .nan", "unsupported value: NaN"},
		"an alias bomb": {
			"a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
				"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n", "excessive aliasing",
		},
		"a large file": {"a: " + strings.Repeat("x", 256<<10), "longer than the 262144 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := microshift.Read(writeFiles(t, map[string]string{"config.yaml": tt.text}))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, %+v", err, got)
			}
		})
	}
}

func TestReadBounds(t *testing.T) {
	t.Parallel()
	large := make(map[string]string)
	for i := range 5 {
		large[fmt.Sprintf("config.d/%d.yaml", i)] = "# " + strings.Repeat("x", 250<<10)
	}
	if _, err := microshift.Read(writeFiles(t, large)); err == nil || !strings.Contains(err.Error(), "in total") {
		t.Errorf("large files: %v", err)
	}
}

// TestReadUnusualFiles: a file that is not regular is an error without delay, and an entry
// that is not a directory is not walked.
func TestReadUnusualFiles(t *testing.T) {
	t.Parallel()
	link := func(target string) func(dir string) error {
		return func(dir string) error { return os.Symlink(target, filepath.Join(dir, "config.d", "x.yaml")) }
	}
	for name, tt := range map[string]struct {
		make func(dir string) error
		want string // empty: the entry is ignored
	}{
		"a FIFO":                {func(dir string) error { return unix.Mkfifo(filepath.Join(dir, "config.d", "x.yaml"), 0o600) }, "is not a regular file"},
		"a link to itself":      {link("x.yaml"), "replace the symbolic link"},
		"a link to nothing":     {link("nothing"), "no such file"},
		"a link to a directory": {link(".."), "is not a regular file"},
		"many entries": {func(dir string) error {
			for i := range 1025 {
				if err := os.Mkdir(filepath.Join(dir, "config.d", fmt.Sprintf("%d.not", i)), 0o700); err != nil {
					return err
				}
			}
			return nil
		}, "more than 1024 entries"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			must(t, errors.Join(os.Mkdir(filepath.Join(dir, "config.d"), 0o700), tt.make(dir)))
			_, err := microshift.Read(dir)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Error(err)
			}
		})
	}
}

func TestFirstAddressAfter(t *testing.T) {
	t.Parallel()
	for network, want := range map[string]string{
		"10.43.0.0/16":     "10.44.0.0",
		"10.43.7.9/16":     "10.44.0.0",
		"172.30.0.0/16":    "172.31.0.0",
		"10.96.0.0/12":     "10.112.0.0",
		"192.0.2.0/25":     "192.0.2.128",
		"192.0.2.7/32":     "192.0.2.8",
		"10.255.0.0/16":    "11.0.0.0",
		"fd02::/112":       "fd02::1:0",
		"fd02:0:0:1::/64":  "fd02:0:0:2::",
		"fd00::/8":         "fe00::",
		"255.255.0.0/16":   "",
		"128.0.0.0/1":      "",
		"0.0.0.0/0":        "",
		"ffff:ffff::/32":   "",
		"ffff:fffe::/32":   "ffff:ffff::",
		"2001:db8::ff/128": "2001:db8::100",
	} {
		got, err := microshift.FirstAddressAfter(netip.MustParsePrefix(network))
		switch {
		case want == "" && err == nil:
			t.Errorf("%s: %v", network, got)
		case want != "" && (err != nil || got != addr(want)):
			t.Errorf("%s: %v, %v, want %s", network, got, err, want)
		}
	}
}

// edgeHost returns a host with two NICs, OVN's links and MicroShift's internal address.
func edgeHost() microshift.Host {
	on := func(link uint32, text string) address.Address {
		p := netip.MustParsePrefix(text)
		return address.Address{IP: p.Addr(), Bits: p.Bits(), Link: link}
	}
	return microshift.Host{
		Links: []address.Link{
			{Index: 1, Name: "lo", Up: true},
			{Index: 2, Name: "eth0", Up: true},
			{Index: 3, Name: "eth1", Up: true},
			{Index: 4, Name: "br-ex", Up: true},
			{Index: 5, Name: "ovn-k8s-mp0", Master: 9, Up: true},
			{Index: 6, Name: "eth2"},
		},
		Addresses: []address.Address{
			on(1, "127.0.0.1/8"), on(2, "192.0.2.9/24"), on(3, "198.51.100.9/24"), on(4, "10.44.0.0/32"),
			on(4, "169.254.169.2/29"),
			on(5, "10.42.0.2/24"), on(6, "203.0.113.9/24"),
			on(1, "::1/128"), on(2, "2001:db8::9/64"), on(2, "fe80::9/64"), on(3, "2001:db8:1::9/64"), on(4, "fd69::2/125"),
		},
		DefaultLinks4: []uint32{2}, DefaultLinks6: []uint32{3},
	}
}

// TestNewHost: an address that another host uses is not the host's.
func TestNewHost(t *testing.T) {
	t.Parallel()
	links := []address.Link{{Index: 2, Name: "eth0", Up: true}, {Index: 3, Name: "eth1"}}
	used := address.Address{IP: addr("2001:db8::10"), Bits: 64, Link: 2}
	found := []address.Address{{IP: addr("2001:db8::9"), Bits: 64, Link: 2, DADFailed: true}, used}
	h := microshift.NewHost(links, found, []uint32{3, 2}, []uint32{4})
	want := microshift.Host{
		Links: links, Addresses: []address.Address{used}, DefaultLinks4: []uint32{3, 2},
		DefaultLinks6: []uint32{4},
	}
	if diff := cmp.Diff(want, h, sameAddr); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// compute computes the values for a config.yaml on edgeHost, after change modified that
// host.
func compute(t *testing.T, text string, change func(*microshift.Host)) (microshift.Config, microshift.Computed, error) {
	t.Helper()
	c, err := microshift.Read(writeFiles(t, map[string]string{"config.yaml": text}))
	must(t, err)
	h := edgeHost()
	if change != nil {
		change(&h)
	}
	got, err := c.Compute(h)
	return c, got, err
}

func TestCompute(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		config          string
		host            func(*microshift.Host)
		nodes, internal string
		address         string // of the router
		err             string
	}{
		"defaults": {
			nodes: "[192.0.2.9]", internal: "[10.44.0.0]",
			address: "[10.44.0.0 192.0.2.9 198.51.100.9 203.0.113.9]",
		},
		"the route on another link": {
			host:  func(h *microshift.Host) { h.DefaultLinks4 = []uint32{3} },
			nodes: "[198.51.100.9]", internal: "[10.44.0.0]", address: "[10.44.0.0 192.0.2.9 198.51.100.9 203.0.113.9]",
		},
		"a link that is down": {
			host:  func(h *microshift.Host) { h.DefaultLinks4 = []uint32{6, 2} },
			nodes: "[192.0.2.9]", internal: "[10.44.0.0]", address: "[10.44.0.0 192.0.2.9 198.51.100.9 203.0.113.9]",
		},
		"the node's address on the bridge": {
			host: func(h *microshift.Host) {
				h.DefaultLinks4 = []uint32{4}
				h.Addresses = append(h.Addresses, address.Address{IP: addr("192.0.2.19"), Bits: 24, Link: 4})
			},
			nodes: "[192.0.2.19]", internal: "[10.44.0.0]", address: "[10.44.0.0 192.0.2.9 192.0.2.19 198.51.100.9 203.0.113.9]",
		},
		"IPv6 only": {
			host:  func(h *microshift.Host) { h.DefaultLinks4 = nil },
			nodes: "[2001:db8:1::9]", internal: "[fd02::1:0]", address: "[2001:db8::9 2001:db8:1::9]",
		},
		"no default route": {
			host:  func(h *microshift.Host) { h.DefaultLinks4, h.DefaultLinks6 = nil, nil },
			nodes: "[192.0.2.9]", internal: "[10.44.0.0]", address: "[10.44.0.0 192.0.2.9 198.51.100.9 203.0.113.9]",
		},
		"no address yet on the link of the route": {
			host: func(h *microshift.Host) { h.DefaultLinks4, h.DefaultLinks6 = []uint32{4}, nil },
			err:  "set node.nodeIP",
		},
		"no addresses yet": {
			host: func(h *microshift.Host) { h.Addresses = nil },
			err:  "set node.nodeIP",
		},
		"no address yet, network configured": {
			config: "network: {serviceNetwork: [172.30.0.0/16]}",
			host:   func(h *microshift.Host) { h.Addresses = nil },
			err:    "set node.nodeIP", internal: "[172.31.0.0]",
		},
		"node IP configured": {
			config: "node: {nodeIP: 198.51.100.9}",
			nodes:  "[198.51.100.9]", internal: "[10.44.0.0]", address: "[10.44.0.0 192.0.2.9 198.51.100.9 203.0.113.9]",
		},
		"IPv6 configured": {
			config: "node: {nodeIP: '2001:db8::9'}",
			nodes:  "[2001:db8::9]", internal: "[fd02::1:0]", address: "[2001:db8::9 2001:db8:1::9]",
		},
		"dual stack": {
			config: "network: {clusterNetwork: [10.42.0.0/16, fd01::/48], serviceNetwork: [10.43.0.0/16, fd02::/112]}",
			nodes:  "[192.0.2.9 2001:db8:1::9]", internal: "[10.44.0.0 fd02::1:0]",
			address: "[10.44.0.0 192.0.2.9 198.51.100.9 203.0.113.9 2001:db8::9 2001:db8:1::9]",
		},
		"dual stack, IPv6 first": {
			config: "node: {nodeIP: '2001:db8::9', nodeIPv6: '2001:db8::9'}\nnetwork: {clusterNetwork: [fd01::/48, " +
				"10.42.0.0/16], serviceNetwork: [fd02::/112, 10.43.0.0/16]}",
			nodes: "[2001:db8::9]", internal: "[fd02::1:0 10.44.0.0]",
			address: "[10.44.0.0 192.0.2.9 198.51.100.9 203.0.113.9 2001:db8::9 2001:db8:1::9]",
		},
		"dual stack, IPv6 configured": {
			config: "node: {nodeIPv6: '2001:db8::9'}\nnetwork: {clusterNetwork: [10.42.0.0/16, fd01::/48], serviceNetwork: " +
				"[10.43.0.0/16, fd02::/112]}\ningress: {listenAddress: [eth0]}",
			nodes: "[192.0.2.9 2001:db8::9]", internal: "[10.44.0.0 fd02::1:0]", address: "[192.0.2.9 2001:db8::9]",
		},
		"advertised": {
			config: "apiServer: {advertiseAddress: 192.0.2.77}",
			nodes:  "[192.0.2.9]", internal: "[192.0.2.77]", address: "[10.44.0.0 192.0.2.9 198.51.100.9 203.0.113.9]",
		},
		"the node's address advertised": {
			config: "apiServer: {advertiseAddress: 192.0.2.9}\nnetwork: {serviceNetwork: [172.30.0.0/16]}",
			nodes:  "[192.0.2.9]", internal: "[192.0.2.9]", address: "[10.44.0.0 192.0.2.9 198.51.100.9 203.0.113.9]",
		},
		"the node's address advertised, with a /32 prefix": {
			config: "apiServer: {advertiseAddress: 192.0.2.9}\nnetwork: {serviceNetwork: [172.30.0.0/16]}",
			host:   func(h *microshift.Host) { h.Addresses[1].Bits = 32 },
			nodes:  "[192.0.2.9]", internal: "[192.0.2.9]", address: "[10.44.0.0 192.0.2.9 198.51.100.9 203.0.113.9]",
		},
		"an address to listen on": {
			config: "ingress: {listenAddress: [198.51.100.9]}",
			nodes:  "[192.0.2.9]", internal: "[10.44.0.0]", address: "[198.51.100.9]",
		},
		"a link to listen on": {
			config: "ingress: {listenAddress: [eth1]}",
			nodes:  "[192.0.2.9]", internal: "[10.44.0.0]", address: "[198.51.100.9]",
		},
		"addresses on which the router never listens": {
			config: "ingress: {listenAddress: [lo, 127.0.0.1, ovn-k8s-mp0, 10.42.0.2, 169.254.169.2, eth9, 192.0.2.99]}",
			nodes:  "[192.0.2.9]", internal: "[10.44.0.0]", address: "[]",
		},
		"removed": {
			config: "ingress: {status: Removed}",
			nodes:  "[192.0.2.9]", internal: "[10.44.0.0]", address: "[]",
		},
		"no address after the network": {
			config: "network: {serviceNetwork: [255.255.0.0/16]}",
			err:    "no address follows network.serviceNetwork 255.255.0.0/16",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, got, err := compute(t, tt.config, tt.host)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatal(err)
			}
			for what, pair := range map[string][2]string{
				"nodes":    {tt.nodes, fmt.Sprint(got.NodeIPs)},
				"internal": {tt.internal, fmt.Sprint(got.Internal)},
				"router":   {tt.address, fmt.Sprint(got.Router.Addresses)},
			} {
				if pair[0] != pair[1] && (err == nil || pair[0] != "") {
					t.Errorf("%s: %s, want %s", what, pair[1], pair[0])
				}
			}
			if got.AdvertiseAddressGiven != c.AdvertiseAddress.IsValid() {
				t.Errorf("forced %v", got.AdvertiseAddressGiven)
			}
		})
	}
}

// TestMissingKey: the key without which MicroShift would detect an internal address on lo as the
// node's.
func TestMissingKey(t *testing.T) {
	t.Parallel()
	const dual = "network: {clusterNetwork: [10.42.0.0/16, fd01::/48], serviceNetwork: [10.43.0.0/16, fd02::/112]}\n"
	offline := func(h *microshift.Host) { h.DefaultLinks4, h.DefaultLinks6 = nil, nil }
	for name, tt := range map[string]struct {
		config string
		host   func(*microshift.Host)
		want   string
	}{
		"a default route":                      {"", nil, ""},
		"no default route":                     {"", offline, "node.nodeIP"},
		"no default route, node IP configured": {"node: {nodeIP: 192.0.2.9}", offline, ""},
		"no address yet": {
			"network: {serviceNetwork: [172.30.0.0/16]}",
			func(h *microshift.Host) { h.Addresses = nil }, "node.nodeIP",
		},
		"no address on the link of the route": {
			"network: {serviceNetwork: [10.43.0.0/16]}",
			func(h *microshift.Host) { h.DefaultLinks4, h.DefaultLinks6 = []uint32{4}, nil }, "node.nodeIP",
		},
		"IPv6 only":                        {"", func(h *microshift.Host) { h.DefaultLinks4 = nil }, ""},
		"a dual stack":                     {dual, nil, "node.nodeIPv6"},
		"dual stack, node IPv6 configured": {dual + "node: {nodeIPv6: '2001:db8::9'}", nil, ""},
		"a dual stack without a route":     {dual, offline, "node.nodeIP"},
		"already on lo, without a route": {
			"", func(h *microshift.Host) { offline(h); h.Addresses[3].Link = 1 },
			"node.nodeIP",
		},
		"another address on lo": {
			"", func(h *microshift.Host) { offline(h); h.Addresses[1].Link = 1 },
			"node.nodeIP",
		},
		"no IPv4 address on the link of its route": {
			"", func(h *microshift.Host) { h.DefaultLinks4 = []uint32{4} },
			"node.nodeIP",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, got, err := compute(t, tt.config, tt.host)
			if err != nil && !errors.Is(err, microshift.ErrNoNodeAddress) {
				t.Fatal(err)
			}
			if got.MissingKey != tt.want {
				t.Errorf("%q, want %q", got.MissingKey, tt.want)
			}
		})
	}
}

func TestUpstreamAddresses(t *testing.T) {
	t.Parallel()
	all := []string{"10.44.0.0", "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.9", "2001:db8::9"}
	c := microshift.Computed{
		NodeIPs:  []netip.Addr{addr("192.0.2.9"), addr("2001:db8::9")},
		Internal: []netip.Addr{addr("10.44.0.0")},
	}
	for _, text := range all {
		c.Router.Addresses = append(c.Router.Addresses, addr(text))
	}
	if got := fmt.Sprint(c.UpstreamAddresses()); got != "[192.0.2.9 2001:db8::9 192.0.2.1 192.0.2.2 192.0.2.3]" {
		t.Error(got)
	}
	c.Router.Addresses = c.Router.Addresses[:1]
	if got := fmt.Sprint(c.UpstreamAddresses()); got != "[10.44.0.0]" {
		t.Errorf("only the internal address: %s", got)
	}
}

// TestNewer: files that were written after MicroShift was started are used and named.
func TestNewer(t *testing.T) {
	t.Parallel()
	dir, units := writeFiles(t, map[string]string{"config.d/10.yaml": ""}), t.TempDir()
	link := filepath.Join(units, "invocation:microshift.service")
	now := time.Now()
	r := microshift.NewReader(dir, units)
	age := func(path string, age time.Duration) {
		t.Helper()
		at := unix.NsecToTimespec(now.Add(-age).UnixNano())
		must(t, unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW))
	}
	expect := func(when, node string, newer ...string) {
		t.Helper()
		now = now.Add(time.Minute)
		r.Read(now)
		now = now.Add(time.Minute)
		if s := r.Read(now); s.Err != nil || s.Config.NodeIP != addr(node) || !slices.Equal(s.Newer, newer) {
			t.Errorf("%s: %+v", when, s)
		}
	}
	main, dropIn := microshift.ConfigFile(dir), filepath.Join(dir, "config.d", "10.yaml")
	must(t, os.WriteFile(main, []byte("node: {nodeIP: 192.0.2.9}\n"), 0o600))
	expect("it does not run", "192.0.2.9")
	for _, path := range []string{main, dropIn, filepath.Dir(dropIn)} {
		age(path, time.Hour)
	}
	must(t, os.Symlink("1", link))
	age(link, time.Hour)
	expect("started after that", "192.0.2.9")
	must(t, os.WriteFile(main, []byte("node: {nodeIP: 192.0.2.10}\n"), 0o600))
	expect("edited", "192.0.2.10", main)
	age(main, 2*time.Hour)
	must(t, os.Remove(dropIn))
	expect("a drop-in is removed", "192.0.2.10", filepath.Dir(dropIn))
	age(link, -time.Hour)
	expect("restarted", "192.0.2.10")
}

// TestReader: a file that is being written removes nothing.
func TestReader(t *testing.T) {
	t.Parallel()
	dir := writeFiles(t, map[string]string{"config.yaml": "node: {nodeIP: 192.0.2.9}\n"})
	write := func(text string) {
		t.Helper()
		must(t, os.WriteFile(microshift.ConfigFile(dir), []byte(text), 0o600))
	}
	now := time.Now()
	r := microshift.NewReader(dir, t.TempDir())
	step := func(when string, after time.Duration, node string, broken bool, retries bool) {
		t.Helper()
		now = now.Add(after)
		a := r.Read(now)
		if got := a.Config.NodeIP; !a.Present || !a.Known || got != addr(node) || (a.Err != nil) != broken ||
			(a.RetryAfter > 0) != retries {
			t.Errorf("%s: %+v", when, a)
		}
	}
	step("at first", 0, "192.0.2.9", false, false)
	write("")
	step("truncated", time.Second, "192.0.2.9", false, true)
	write("node: {nodeIP: 192.0.2.1")
	step("partly written", time.Second, "192.0.2.9", false, true)
	write("node: {nodeIP: 192.0.2.10}\n")
	step("complete", time.Second, "192.0.2.9", false, true)
	step("settled", 500*time.Millisecond, "192.0.2.10", false, false)
	write("node: [")
	step("broken", time.Second, "192.0.2.10", false, true)
	step("broken and settled", time.Second, "192.0.2.10", true, false)
	write("node: {nodeIP: 192.0.2.10}\n")
	step("corrected", time.Second, "192.0.2.10", true, true)
	step("corrected and settled", time.Second, "192.0.2.10", false, false)
}

// TestPresent: a directory that cannot be examined counts as present.
func TestPresent(t *testing.T) {
	t.Parallel()
	dir := writeFiles(t, map[string]string{"config.yaml": ""})
	loop := filepath.Join(dir, "loop")
	must(t, os.Symlink(loop, loop))
	for path, want := range map[string]bool{
		dir: true, filepath.Join(dir, "none"): false, microshift.ConfigFile(dir): false,
		filepath.Join(microshift.ConfigFile(dir), "below"): false, loop: true,
	} {
		if microshift.Present(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestAPINames: only names that are in the DNS count, and a certificate without names can have others.
func TestAPINames(t *testing.T) {
	t.Parallel()
	named := []microshift.NamedCertificate{{Names: []string{"Public.edge.test.", "*.edge.test", "api.edge.test"}}}
	for name, tt := range map[string]struct {
		config  microshift.Config
		want    []string
		wantErr string
	}{
		"the defaults":  {microshift.Config{BaseDomain: "example.com"}, nil, "contains no name of the API"},
		"a base domain": {microshift.Config{BaseDomain: "edge.test"}, []string{"api.edge.test"}, ""},
		"all": {
			microshift.Config{
				BaseDomain: "edge.test", NamedCertificates: named,
				SubjectAltNames: []string{
					"192.0.2.9", "2001:db8::9", "edge", "api-int.edge.test", "san.edge.test", "a b.edge.test",
				},
			},
			[]string{"san.edge.test", "public.edge.test", "api.edge.test"},
			"",
		},
		"a certificate without names": {
			microshift.Config{
				BaseDomain:        "example.com",
				NamedCertificates: append([]microshift.NamedCertificate{{CertPath: "/c"}}, named...),
			},
			[]string{"public.edge.test", "api.edge.test"},
			"an entry of apiServer.namedCertificates",
		},
	} {
		got, err := tt.config.APINames()
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if (err != nil) != (tt.wantErr != "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
