// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"errors"
	"net/netip"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var compareAddrs = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmpopts.EquateEmpty(),
}

func parseAddrs(s ...string) []netip.Addr {
	var out []netip.Addr
	for _, a := range s {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func TestReadCorpus(t *testing.T) {
	type row struct {
		file string
		want VIPs
	}
	tests := []row{
		{file: "openshift-ipv4", want: VIPs{API: parseAddrs("192.168.111.5"), Ingress: parseAddrs("192.168.111.4")}},
		{file: "openshift-ipv4-unicast", want: VIPs{API: parseAddrs("192.168.111.5"), Ingress: parseAddrs("192.168.111.4")}},
		{file: "openshift-ipv6-unicast", want: VIPs{
			API:     parseAddrs("fd2e:6f44:5dd8:c956::5"),
			Ingress: parseAddrs("fd2e:6f44:5dd8:c956::4"),
		}},
		{
			file: "openshift-dual-unicast",
			want: VIPs{API: parseAddrs("192.168.111.5", "fd2e:6f44:5dd8:c956::5"), Ingress: parseAddrs("192.168.111.4",
				"fd2e:6f44:5dd8:c956::4")},
		},
		{
			file: "openshift-openstack-dual",
			want: VIPs{API: parseAddrs("192.168.111.5", "fd2e:6f44:5dd8:c956::5"), Ingress: parseAddrs("192.168.111.4",
				"fd2e:6f44:5dd8:c956::4")},
		},
		{
			// Not in the corpus for the real keepalived, which rejects an instance without a
			// VIP.
			file: "alone/openshift-missing-pair",
			want: VIPs{API: parseAddrs("192.168.111.5"), Ingress: parseAddrs("192.168.111.4")},
		},
		{file: "braces", want: VIPs{API: parseAddrs("192.0.2.1", "192.0.2.3", "192.0.2.4"), Ingress: parseAddrs("192.0.2.2",
			"192.0.2.5")}},
		{file: "comments", want: VIPs{API: parseAddrs("192.0.2.1", "192.0.2.2")}},
		{file: "quotes", want: VIPs{API: parseAddrs("192.0.2.1", "192.0.2.2"), Ingress: parseAddrs("192.0.2.3")}},
		{file: "crlf", want: VIPs{API: parseAddrs("192.0.2.1")}},
		{
			file: "escapes",
			want: VIPs{API: parseAddrs("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.5")},
		},
		{
			file: "extras",
			want: VIPs{
				API: parseAddrs("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.6", "192.0.2.7",
					"2001:db8::1", "1:2:3:4:5:6:7:0", "::ffff:1:2:3"),
				Ingress: parseAddrs("192.0.2.8"),
			},
		},
		{file: "blocks", want: VIPs{API: parseAddrs("192.0.2.1", "192.0.2.3"), Ingress: parseAddrs("192.0.2.2")}},
		{
			file: "names",
			want: VIPs{
				API:     parseAddrs("192.0.2.5", "192.0.2.6", "192.0.2.3", "192.0.2.1", "192.0.2.14"),
				Ingress: parseAddrs("192.0.2.4", "192.0.2.2"),
			},
		},
		{
			file: "tails",
			want: VIPs{
				API: parseAddrs("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5", "192.0.2.6", "192.0.2.7",
					"192.0.2.8", "192.0.2.9", "192.0.2.10", "192.0.2.11", "2001:db8::11", "2001:db8::12"),
				Ingress: parseAddrs("2001:db8::1", "2001:db8::2", "2001:db8::c000:203", "192.0.2.12"),
			},
		},
		{
			file: "includes/main",
			want: VIPs{API: parseAddrs("192.0.2.1", "192.0.2.4", "192.0.2.5", "192.0.2.3"), Ingress: parseAddrs("192.0.2.2",
				"192.0.2.6")},
		},
	}
	for _, name := range corpus(t) {
		if !slices.ContainsFunc(tests, func(tt row) bool { return "testdata/"+tt.file+".conf" == name }) {
			t.Errorf("%s is in the corpus and not in the table", name)
		}
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			got, err := Read("testdata/" + tt.file + ".conf")
			must(t, err)
			if diff := cmp.Diff(tt.want, got.VIPs, compareAddrs); diff != "" {
				t.Errorf("VIPs (-want +got):\n%s", diff)
			}
		})
	}
}

// files is an includer for files in memory, by exact path.
type files map[string]string

func (f files) include(from, pattern string) ([]source, error) {
	name := pattern
	if !path.IsAbs(name) {
		name = path.Join(path.Dir(from), name)
	}
	text, ok := f[name]
	if !ok {
		return nil, nil
	}
	return []source{{name, text}}, nil
}

func (f files) read(name string) (VIPs, error) { return parse(source{name, f[name]}, f.include) }

func apiInstance(body string) string {
	return "vrrp_instance x_API_0 {\n" + body + "\n}\n"
}

func TestParseErrors(t *testing.T) {
	tests := []struct {
		name       string
		text       string
		files      files
		want       string
		incomplete bool
	}{
		{
			name: "empty", text: " \n\t\r\n", want: "/k.conf: the file is empty: keepalived.conf is incomplete",
			incomplete: true,
		},
		{name: "NUL bytes", text: apiInstance("") + "\x00\x00\x00", want: "/k.conf:4: NUL byte found", incomplete: true},
		{
			name: "block not closed", text: "vrrp_instance x_API_0 {\n", want: `/k.conf:1: the block that begins here has no }`,
			incomplete: true,
		},
		{
			name: "inner block not closed", text: "vrrp_instance x_API_0 {\n virtual_ipaddress {\n 192.0.2.1\n}\n",
			want: "/k.conf:1: the block", incomplete: true,
		},
		{
			name: "included file incomplete", text: "include vips\n", files: files{"/vips": "vrrp_instance x_API_0 {\n"},
			want: "/vips:1: the block", incomplete: true,
		},
		{name: "quote at the end", text: `script "abc`, want: "/k.conf:1: unclosed double quote", incomplete: true},
		{
			name: "quote not closed", text: "a\n  script \"abc\nb\n",
			want: "/k.conf:2: unclosed double quote: close it on this line",
		},
		{name: "brace too many", text: apiInstance("") + "  }\n", want: "/k.conf:4: unexpected }: no block is open"},
		{name: "brace missing", text: "vrrp_instance x_API_0\nstate MASTER\n}\n", want: `/k.conf:3: unexpected }`},
		{
			name: "closing brace missing", text: apiInstance(" virtual_ipaddress {\n 192.0.2.1\n track_script {\n chk\n }"),
			want: `/k.conf:4: "track_script" is not the address of a VIP`,
		},
		{
			name: "zone", text: apiInstance(" virtual_ipaddress { fe80::1%eth0/64 }"),
			want: `/k.conf:2: "fe80::1%eth0/64" is not the address of a VIP`,
		},
		{
			name: "IPv4-mapped", text: apiInstance(" virtual_ipaddress { ::ffff:192.0.2.1 }"),
			want: `"::ffff:192.0.2.1" is not the address of a VIP`,
		},
		{name: "unspecified", text: apiInstance(" virtual_ipaddress { :: }"), want: "is not the address of a VIP"},
		{
			name: "multicast", text: apiInstance(" virtual_ipaddress_excluded { 224.0.0.18 }"),
			want: "is not the address of a VIP",
		},
		{
			name: "condition", text: apiInstance(" @node1 virtual_ipaddress { 192.0.2.1 }"),
			want: "/k.conf:2: the condition @node1 is not supported: set vips.api",
		},
		{
			name: "sequence", text: "~SEQ(N, 1, 3) 192.0.2.$N\n",
			want: "/k.conf:1: the definition ~SEQ(N, is not supported: set vips.api",
		},
		{
			name: "definition", text: " $A=192.0.2.1\n",
			want: "/k.conf:1: the definition $A=192.0.2.1 is not supported: set vips.api",
		},
		{
			name: "part of an address", text: apiInstance(" virtual_ipaddress { 192.0.2.$N/32 }"),
			want: "/k.conf:2: the definition 192.0.2.$N is not supported",
		},
		{
			name: "definition in braces", text: apiInstance(" priority ${_RANDOM 10 20}"),
			want: "/k.conf:2: a definition in ${} is not supported",
		},
		{
			name: "definition in a name", text: "vrrp_instance $X_API_0 {\n}\n",
			want: "/k.conf:1: the definition $X_API_0 is not supported",
		},
		{
			name: "brace pattern", text: "include {a,b}.conf\n",
			want: "/k.conf:1: the pattern of include { a,b } .conf is not supported: set vips.api",
		},
		{
			name: "pattern for directories", text: "include */a.conf\n",
			want: "/k.conf:1: the pattern of include */a.conf is not supported",
		},
		{name: "definition in a pattern", text: "include $F\n", want: "the pattern of include $F is not supported"},
		{
			name: "include depth", text: "include 1\n",
			want: "/8:1: include 9: nested more than 8 deep: does a file include itself?",
			files: files{
				"/1": "include 2\n", "/2": "include 3\n", "/3": "include 4\n", "/4": "include 5\n",
				"/5": "include 6\n", "/6": "include 7\n", "/7": "include 8\n", "/8": "include 9\n",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(source{"/k.conf", tt.text}, tt.files.include)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v\nwant   %s", err, tt.want)
			}
			if errors.Is(err, ErrIncomplete) != tt.incomplete {
				t.Errorf("is ErrIncomplete: %v, want %v", !tt.incomplete, tt.incomplete)
			}
		})
	}
}

func TestParseAccepts(t *testing.T) {
	const vips = "\n virtual_ipaddress { 192.0.2.1 }\n"
	tests := []struct {
		name, text string
		files      files
		want       []netip.Addr
	}{
		{
			name: "odd but foreign addresses",
			text: "vrrp_instance y { virtual_ipaddress { fe80::1%eth0 \n :: \n 224.0.0.1 } }\n" + apiInstance(vips),
			want: parseAddrs("192.0.2.1"),
		},
		{name: "unknown blocks, nested", text: "future { vrrp_instance y_API_0 { virtual_ipaddress { 192.0.2.9 } } }\n" +
			apiInstance("auth { virtual_ipaddress { 192.0.2.8 } }"+vips), want: parseAddrs("192.0.2.1")},
		{
			name: "a long comment", text: "# " + strings.Repeat("x", 3000) + "\n" + apiInstance(vips),
			want: parseAddrs("192.0.2.1"),
		},
		{name: "block over two files", text: "include a\ninclude b\n", files: files{
			"/a": "vrrp_instance x_API_0 {\n",
			"/b": vips + "}\n",
		}, want: parseAddrs("192.0.2.1")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := files{"/k.conf": tt.text}
			for name, text := range tt.files {
				f[name] = text
			}
			got, err := f.read("/k.conf")
			must(t, err)
			if diff := cmp.Diff(tt.want, got.API, compareAddrs); diff != "" {
				t.Errorf("API VIPs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTruncated truncates OpenShift's files at every byte. The result must be ErrIncomplete or a subset
// of the VIPs, and a Reader with the complete configuration must keep it.
func TestTruncated(t *testing.T) {
	for _, name := range corpus(t) {
		if !strings.HasPrefix(path.Base(name), "openshift-") {
			continue
		}
		t.Run(path.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			must(t, err)
			f := files{name: string(text)}
			whole, err := f.read(name)
			must(t, err)
			for n := range text {
				f[name] = string(text[:n])
				got, err := f.read(name)
				if err != nil && !errors.Is(err, ErrIncomplete) && !errors.Is(err, ErrNoAPIInstance) {
					t.Fatalf("cut at byte %d: %v", n, err)
				}
				if !isSubset(got.API, whole.API) || !isSubset(got.Ingress, whole.Ingress) {
					t.Fatalf("cut at byte %d: VIPs %v are not a subset of %v", n, got, whole)
				}
				r, now := NewReader(name), time.Unix(1000, 0)
				r.update(Discovery{VIPs: whole}, string(text), nil, now)
				for _, after := range []time.Duration{0, time.Millisecond, settleTime - time.Nanosecond} {
					kept := r.update(Discovery{VIPs: got}, f[name], err, now.Add(after))
					if diff := cmp.Diff(whole, kept.Discovery.VIPs, compareAddrs); diff != "" {
						t.Fatalf("cut at byte %d, after %v: %+v", n, after, kept)
					}
				}
			}
		})
	}
}

func isSubset(part, whole []netip.Addr) bool {
	for _, a := range part {
		if !slices.Contains(whole, a) {
			return false
		}
	}
	return true
}
