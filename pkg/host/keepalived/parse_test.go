// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

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
		file    string
		want    VIPs
		ignored []string
	}
	tests := []row{
		{file: "openshift-ipv4", want: VIPs{API: parseAddrs("192.168.111.5"), Ingress: parseAddrs("192.168.111.4")}},
		{file: "openshift-ipv4-unicast", want: VIPs{API: parseAddrs("192.168.111.5"), Ingress: parseAddrs("192.168.111.4")}},
		{file: "openshift-ipv6-unicast", want: VIPs{API: parseAddrs("fd2e:6f44:5dd8:c956::5"), Ingress: parseAddrs("fd2e:6f44:5dd8:c956::4")}},
		{
			file: "openshift-dual-unicast",
			want: VIPs{API: parseAddrs("192.168.111.5", "fd2e:6f44:5dd8:c956::5"), Ingress: parseAddrs("192.168.111.4", "fd2e:6f44:5dd8:c956::4")},
		},
		{
			file: "openshift-openstack-dual",
			want: VIPs{API: parseAddrs("192.168.111.5", "fd2e:6f44:5dd8:c956::5"), Ingress: parseAddrs("192.168.111.4", "fd2e:6f44:5dd8:c956::4")},
		},
		{
			// Not in the corpus for the real keepalived, which rejects an instance without a
			// VIP.
			file: "alone/openshift-missing-pair",
			want: VIPs{API: parseAddrs("192.168.111.5"), Ingress: parseAddrs("192.168.111.4")},
		},
		{file: "braces", want: VIPs{API: parseAddrs("192.0.2.1", "192.0.2.3", "192.0.2.4"), Ingress: parseAddrs("192.0.2.2", "192.0.2.5")}},
		{file: "comments", want: VIPs{API: parseAddrs("192.0.2.1", "192.0.2.2")}},
		{file: "quotes", want: VIPs{API: parseAddrs("192.0.2.1", "192.0.2.2"), Ingress: parseAddrs("192.0.2.3")}},
		{file: "crlf", want: VIPs{API: parseAddrs("192.0.2.1")}},
		{
			file: "escapes",
			want: VIPs{API: parseAddrs("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5")},
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
				API:     parseAddrs("192.0.2.5", "192.0.2.6", "192.0.2.3", "192.0.2.1"),
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
			file: "dropped",
			want: VIPs{API: parseAddrs("192.0.2.1", "192.0.2.6", "2001:db8::7", "2001:db8::12"), Ingress: parseAddrs("2001:db8::8", "192.0.2.9")},
			ignored: []string{
				`testdata/dropped.conf:8:9: dropped_API_0: keepalived ignores "192.0.2.256": it is not an IP address`,
				`testdata/dropped.conf:9:9: dropped_API_0: keepalived ignores "192.0.2.07": it is not an IP address`,
				`testdata/dropped.conf:10:9: dropped_API_0: keepalived ignores "api.example.com": it is not an IP address`,
				`testdata/dropped.conf:12:9: dropped_API_0: keepalived ignores "$UNDEFINED": this name is not defined above`,
				`testdata/dropped.conf:13:9: dropped_API_0: keepalived ignores "192.0.2.2": dev is set more than once`,
				`testdata/dropped.conf:14:9: dropped_API_0: keepalived ignores "192.0.2.3": "label" requires a value`,
				`testdata/dropped.conf:15:9: dropped_API_0: keepalived ignores "192.0.2.4": the broadcast address is invalid`,
				`testdata/dropped.conf:16:9: dropped_API_0: keepalived ignores "192.0.2.5": the label is longer than 15 characters`,
				`testdata/dropped.conf:17:9: dropped_API_0: keepalived ignores "2001:db8::5": it does not have the instance's address family`,
				`testdata/dropped.conf:21:9: dropped_API_0: keepalived ignores "2001:db8::6": the broadcast address is invalid`,
				`testdata/dropped.conf:32:9: dropped_INGRESS_0: keepalived ignores "192.0.2.8": it does not have the instance's address family`,
				`testdata/dropped.conf:46:9: dropped_INGRESS_1: keepalived ignores "2001:db8::9": it does not have the instance's address family`,
				`testdata/dropped.conf:50:1: duplicate vrrp_instance "dropped_API_0": keepalived skips this instance`,
				`testdata/dropped.conf:57:1: a vrrp_instance requires a name of one word: keepalived skips this instance`,
				`testdata/dropped.conf:73:9: dropped_API_2: keepalived ignores "192.0.2.12": it does not have the instance's address family`,
			},
		},
		{
			file: "definitions",
			want: VIPs{
				API:     parseAddrs("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.6", "192.0.2.7", "192.0.3.1", "192.0.3.4"),
				Ingress: parseAddrs("192.0.2.5"),
			},
			ignored: []string{
				`testdata/definitions.conf:13:9: d_API_0: keepalived ignores "$API/32": this name is not defined above`,
				`testdata/definitions.conf:16:9: d_API_0: keepalived ignores "192.0.2": it is not an IP address`,
				`testdata/definitions.conf:19:9: d_API_0: keepalived ignores "$UNDEFINED": this name is not defined above`,
				`testdata/definitions.conf:20:9: d_API_0: keepalived ignores "$AFTER": this name is not defined above`,
				`testdata/definitions.conf:26:9: d_API_0: keepalived ignores "node1": it is not an IP address`,
				`testdata/definitions.conf:36:9: d_INGRESS_0: keepalived ignores "192.0.2.5,": it is not an IP address`,
			},
		},
		{file: "multiline", want: VIPs{API: parseAddrs("192.0.2.1", "192.0.2.2", "192.0.2.4", "192.0.2.5"), Ingress: parseAddrs("192.0.3.1", "192.0.3.2", "192.0.3.4", "192.0.3.5")}},
		{file: "conditional", want: VIPs{API: parseAddrs("192.0.2.1", "192.0.2.4", "192.0.2.5", "192.0.2.6"), Ingress: parseAddrs("192.0.2.8")}},
		{
			file: "includes/main",
			want: VIPs{API: parseAddrs("192.0.2.1", "192.0.2.4", "192.0.2.5", "192.0.2.3"), Ingress: parseAddrs("192.0.2.2", "192.0.2.6")},
		},
	}
	for _, name := range corpus(t) {
		if !slices.ContainsFunc(tests, func(tt row) bool { return "testdata/"+tt.file+".conf" == name }) {
			t.Errorf("%s is in the corpus and not in the table", name)
		}
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			got, err := readWithConfigID("testdata/"+tt.file+".conf", corpusID)
			must(t, err)
			if diff := cmp.Diff(tt.want, got.VIPs, compareAddrs); diff != "" {
				t.Errorf("VIPs (-want +got):\n%s", diff)
			}
			var ignored []string
			for _, n := range got.Ignored {
				ignored = append(ignored, n.String())
			}
			if tt.ignored != nil {
				if diff := cmp.Diff(tt.ignored, ignored); diff != "" {
					t.Errorf("ignored (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// files is an includer for files in memory, by exact path.
type files map[string]string

func (f files) include(dir, pattern string) ([]source, error) {
	name := pattern
	if !path.IsAbs(name) {
		name = path.Join(dir, name)
	}
	text, ok := f[name]
	if !ok {
		return nil, nil
	}
	return []source{{path: name, dir: path.Dir(name), data: []byte(text)}}, nil
}

func (f files) read(name string) (reading, error) {
	found, err := parse(source{path: name, dir: path.Dir(name), data: []byte(f[name])}, corpusID, f.include)
	return newReading(name, found, err)
}

func apiInstance(body string) string {
	return "vrrp_instance x_API_0 {\n" + body + "\n}\n"
}

func TestParseErrors(t *testing.T) {
	deep := strings.Repeat("a {\n", maxNesting+1)
	var bomb, doubling strings.Builder
	bomb.WriteString("$A0=x\n")
	for i := range 40 {
		fmt.Fprintf(&bomb, "$A%d= \\\n $A%d \\\n $A%d \\\n x\n\n", i+1, i, i)
	}
	doubling.WriteString("$B0=0123456789\n")
	for i := range 10 {
		fmt.Fprintf(&doubling, "$B%d=${B%d}${B%d}\n", i+1, i, i)
	}
	tests := []struct {
		name       string
		text       string
		files      files
		want       string
		incomplete bool
	}{
		{name: "empty", text: "", want: "/k.conf:1:1: the file is empty: keepalived.conf is incomplete", incomplete: true},
		{name: "only white space", text: " \n\t\r\n", want: "/k.conf:2:2: the file is empty", incomplete: true},
		{name: "NUL bytes", text: apiInstance("") + "\x00\x00\x00", want: "/k.conf:4:1: NUL byte found", incomplete: true},
		{name: "block not closed", text: "vrrp_instance x_API_0 {\n", want: `/k.conf:1:24: the file ends inside the block "vrrp_instance x_API_0" of line 1`, incomplete: true},
		{name: "inner block not closed", text: "vrrp_instance x_API_0 {\n virtual_ipaddress {\n 192.0.2.1\n}\n", want: "ends inside the block", incomplete: true},
		{name: "brace due at the end", text: "vrrp_instance x_API_0", want: `the file ends before the { of "vrrp_instance x_API_0"`, incomplete: true},
		{name: "quote at the end", text: `script "abc`, want: "/k.conf:1:12: the file ends inside a quoted string", incomplete: true},
		{name: "definition at the end", text: "$A= \\\n abc \\\n", want: "the file ends inside the definition of $A", incomplete: true},
		{name: "included file incomplete", text: "include vips\n", files: files{"/vips": "vrrp_instance x_API_0 {\n"}, want: "/vips:1:24: the file ends inside the block", incomplete: true},
		{name: "quote not closed", text: "a\n  script \"abc\nb\n", want: "/k.conf:2:3: unclosed double quote: close it on this line"},
		{name: "brace without keyword", text: "{ }", want: "/k.conf:1:1: unexpected {: no keyword precedes it"},
		{name: "second brace", text: "a { {", want: "/k.conf:1:5: unexpected {"},
		{name: "brace too many", text: apiInstance("") + "  }\n", want: "/k.conf:4:3: unexpected }: no block is open"},
		{name: "brace missing", text: "vrrp_instance x_API_0\nstate MASTER\n}\n", want: `/k.conf:2:1: expected the { of "vrrp_instance x_API_0" from line 1: add it`},
		{name: "inner brace missing", text: apiInstance(" virtual_ipaddress\n }"), want: `/k.conf:3:2: expected the { of "virtual_ipaddress" from line 2`},
		{name: "closing brace missing", text: apiInstance(" virtual_ipaddress {\n 192.0.2.1\n track_script {\n chk\n }"), want: `/k.conf:4:15: unexpected { inside "virtual_ipaddress" of line 2`},
		{name: "zone", text: apiInstance(" virtual_ipaddress { fe80::1%eth0/64 }"), want: `/k.conf:2:22: x_API_0: "fe80::1%eth0/64" has a zone: remove the zone`},
		{name: "IPv4-mapped", text: apiInstance(" virtual_ipaddress { ::ffff:192.0.2.1 }"), want: `/k.conf:2:22: x_API_0: "::ffff:192.0.2.1" is an IPv4-mapped IPv6 address: write it as 192.0.2.1`},
		{name: "unspecified", text: apiInstance(" virtual_ipaddress { :: }"), want: "is the unspecified address"},
		{name: "multicast", text: apiInstance(" virtual_ipaddress_excluded { 224.0.0.18 }"), want: "is a multicast address"},
		{name: "sequence", text: "~SEQ(N, 1, 3) 192.0.2.$N\n", want: "/k.conf:1:1: ~SEQ is not supported: write the resulting lines"},
		{name: "list in a definition", text: "$L=~LST(N, 1, 3) 192.0.2.$N\n$L\n", want: "/k.conf:2:1: ~LST is not supported"},
		{name: "undefined in braces", text: apiInstance(" virtual_ipaddress { ${VIP}/32 }"), want: "/k.conf:2:22: ${VIP} cannot be expanded here"},
		{name: "long line", text: strings.Repeat("a ", 600), want: "/k.conf:1:1: the line is longer than the 1023 bytes that keepalived accepts"},
		{name: "nesting", text: deep, want: "nested more than 64 deep"},
		{name: "definition of itself", text: "$A=$A\n$A\n", want: "expand without end"},
		{name: "growing definition of itself", text: "$A=a $A\n$A\n", want: "longer than keepalived accepts"},
		{name: "doubling definitions", text: doubling.String() + "$B10\n", want: "longer than keepalived accepts"},
		{name: "multi-line bomb", text: bomb.String() + "$A40\n", want: "expand without end"},
		{name: "multi-line loop", text: "$A= \\\n x \\\n $A \\\n y\n\n$A\n", want: "expand without end"},
		{name: "include of itself", text: "include k.conf\n", files: files{"/k.conf": "include k.conf\n"}, want: "/k.conf:1:1: include k.conf: /k.conf includes itself"},
		{name: "include in a circle", text: "include a\n", files: files{"/a": " include b\n", "/b": "include a\n"}, want: "/b:1:1: include a: /a includes itself"},
		{
			name: "include depth", text: "include 1\n", want: "/8:1:1: include 9: nested more than 8 deep",
			files: files{"/1": "include 2", "/2": "include 3", "/3": "include 4", "/4": "include 5", "/5": "include 6", "/6": "include 7", "/7": "include 8", "/8": "include 9", "/9": "a\n"},
		},
		{name: "include count", text: strings.Repeat("include a\n", maxFiles+1), files: files{"/a": "b\n"}, want: "/k.conf:257:1: include a: more than 256 files"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(source{path: "/k.conf", dir: "/", data: []byte(tt.text)}, corpusID, tt.files.include)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v\nwant   %s", err, tt.want)
			}
			if errors.Is(err, ErrIncomplete) != tt.incomplete {
				t.Errorf("is ErrIncomplete: %v, want %v", !tt.incomplete, tt.incomplete)
			}
			if fault := (*ParseError)(nil); !errors.As(err, &fault) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q is not a ParseError of one line", err)
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
		{name: "odd but foreign addresses", text: "vrrp_instance y { virtual_ipaddress { fe80::1%eth0 \n :: \n 224.0.0.1 } }\n" + apiInstance(vips), want: parseAddrs("192.0.2.1")},
		{name: "unknown blocks, nested", text: "future { vrrp_instance y_API_0 { virtual_ipaddress { 192.0.2.9 } } }\n" + apiInstance("auth { virtual_ipaddress { 192.0.2.8 } }"+vips), want: parseAddrs("192.0.2.1")},
		{name: "a long comment", text: "# " + strings.Repeat("x", 3000) + "\n" + apiInstance(vips), want: parseAddrs("192.0.2.1")},
		{name: "random and environment", text: apiInstance(" priority ${_RANDOM 10 20}\n notify ${_ENV HOME}/x\n" + vips), want: parseAddrs("192.0.2.1")},
		// keepalived 2.2.7 misparses this line. Its manual documents the expected result.
		{name: "condition in a definition", text: "$ME=@node1\n$NOT=@^node1\n" + apiInstance(" virtual_ipaddress {\n $ME 192.0.2.7\n $NOT 192.0.2.8\n }"), want: parseAddrs("192.0.2.7")},
		{name: "block over two files", text: "include a\ninclude b\n", files: files{"/a": "vrrp_instance x_API_0 {\n", "/b": vips + "}\n"}, want: parseAddrs("192.0.2.1")},
		{name: "definition from an include", text: "include a\n" + apiInstance("virtual_ipaddress { $VIP }"), files: files{"/a": "$VIP=192.0.2.1\n"}, want: parseAddrs("192.0.2.1")},
		{name: "include by definition", text: "$F=a\n" + apiInstance("include $F"), files: files{"/a": vips}, want: parseAddrs("192.0.2.1")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := files{"/k.conf": tt.text}
			for name, text := range tt.files {
				f[name] = text
			}
			got, err := f.read("/k.conf")
			must(t, err)
			if diff := cmp.Diff(tt.want, got.VIPs.API, compareAddrs); diff != "" {
				t.Errorf("API VIPs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTruncated truncates OpenShift's files at every byte. The result must be ErrIncomplete
// or a subset of the VIPs, and a Reader with the complete configuration must keep it.
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
				if !isSubset(got.VIPs.API, whole.VIPs.API) || !isSubset(got.VIPs.Ingress, whole.VIPs.Ingress) {
					t.Fatalf("cut at byte %d: VIPs %v are not a subset of %v", n, got.VIPs, whole.VIPs)
				}
				checkLastGoodKept(t, n, got, err, whole)
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

func TestRoleOf(t *testing.T) {
	tests := []struct {
		name  string
		role  Role
		index int
	}{
		{"ostest_API_0", RoleAPI, 0},
		{"ostest_INGRESS_1", RoleIngress, 1},
		{"my_API_0_INGRESS_1", RoleIngress, 1},
		{"my_INGRESS_0_API_12", RoleAPI, 12},
		{"_API_0", RoleAPI, 0},
		{"x_API_9999", RoleAPI, 9999},
		{"x_API_10000", RoleOther, 0},
		{"x_API_00", RoleOther, 0},
		{"x_API_", RoleOther, 0},
		{"x_API", RoleOther, 0},
		{"API_0", RoleOther, 0},
		{"x_api_0", RoleOther, 0},
		{"x_API_+1", RoleOther, 0},
		{"x_API_0 ", RoleOther, 0},
		{"", RoleOther, 0},
		{"0", RoleOther, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if role, index := roleOf(tt.name); role != tt.role || index != tt.index {
				t.Errorf("roleOf = %v, %d; want %v, %d", role, index, tt.role, tt.index)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("vrrp_instance a_API_0 { virtual_ipaddress { 192.0.2.1 } }\n"), []byte(""))
	f.Add([]byte("include x\n$A= \\\n $A \\\n b\n\n$A\n"), []byte("include x\n"))
	f.Add([]byte("include unreadable\n"), []byte(""))
	f.Add([]byte("@node1 a \"{ # } ${_HASH}"), []byte("$B=1"))
	f.Add([]byte("vrrp_instance \"a_INGRESS_1\"\n{ virtual_ipaddress_excluded{2001:db8::1%a/64 label x\n"), []byte("}\n"))
	f.Fuzz(func(t *testing.T, main, included []byte) {
		include := func(_, pattern string) ([]source, error) {
			if pattern == "unreadable" {
				return nil, errors.New("no access")
			}
			return []source{{path: "included", data: included}}, nil
		}
		run := func() (parseResult, error) {
			return parse(source{path: "main", data: main}, corpusID, include)
		}
		got, err := run()
		again, errAgain := run()
		if diff := cmp.Diff(got, again, cmp.AllowUnexported(parseResult{}), compareAddrs); diff != "" {
			t.Errorf("the second reading differs (-first +second):\n%s", diff)
		}
		if fmt.Sprint(err) != fmt.Sprint(errAgain) {
			t.Errorf("errors %v and %v", err, errAgain)
		}
		if err != nil && len(got.instances) != 0 {
			t.Errorf("instances %v beside the error %v", got.instances, err)
		}
		for _, role := range []Role{RoleAPI, RoleIngress} {
			seen := make(map[netip.Addr]bool)
			for _, a := range collectVIPs(got.instances, role) {
				if seen[a] || !a.IsValid() || a.Zone() != "" || a != a.Unmap() || a.IsUnspecified() || a.IsMulticast() {
					t.Errorf("%v VIP %v", role, a)
				}
				seen[a] = true
			}
		}
	})
}
