// SPDX-License-Identifier: Apache-2.0

package reqhead_test

import (
	"bufio"
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/reqhead"
)

const letsEncrypt = "GET /.well-known/acme-challenge/LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0 HTTP/1.1\r\n" +
	"Host: api.example.com\r\n" +
	"User-Agent: Mozilla/5.0 (compatible; Let's Encrypt validation server; +https://www.letsencrypt.org)\r\n" +
	"Accept: */*\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"

func allowAnyHost([]byte) bool { return true }

// parseAndValidate parses and validates text as one read.
func parseAndValidate(text []byte) (*reqhead.Request, int, reqhead.Fault) {
	r := new(reqhead.Request)
	n, fault := r.Parse(text)
	if n == 0 || fault != reqhead.None {
		return r, n, fault
	}
	return r, n, r.Validate(allowAnyHost, len(text)-n)
}

// TestParseInPieces parses heads byte by byte, in a buffer that moves, and expects
// the result of one read.
func TestParseInPieces(t *testing.T) {
	for name, text := range map[string]string{
		"a validator's":   letsEncrypt,
		"HTTP/1.0":        "HEAD /.well-known/acme-challenge/x HTTP/1.0\r\n\r\n",
		"bad field":       "GET / HTTP/1.1\r\nHost: a\r\nX Y: z\r\n\r\n",
		"repeated Host":   "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
		"LF":              "GET / HTTP/1.1\nHost: a\n\n",
		"TLS":             "\x16\x03\x01\x02\x00",
		"not the prefix":  "POST /apis HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n",
		"no line end":     "GET / HTTP/1.1\r\nHost: a",
		"unknown version": "GET / HTTP/3.0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			whole := new(reqhead.Request)
			n, fault := whole.Parse([]byte(text))
			pieces := new(reqhead.Request)
			var gotN int
			var gotFault reqhead.Fault
			for i := 1; i <= len(text) && gotN == 0 && gotFault == reqhead.None; i++ {
				gotN, gotFault = pieces.Parse(bytes.Clone([]byte(text[:i])))
			}
			if gotN != n || gotFault != fault {
				t.Fatalf("in pieces: %d, %v; at once: %d, %v", gotN, gotFault, n, fault)
			}
			if n == 0 {
				return
			}
			if diff := cmp.Diff(parsedRequestOf(whole), parsedRequestOf(pieces)); diff != "" {
				t.Errorf("(-at once +in pieces):\n%s", diff)
			}
		})
	}
}

type parsedRequest struct {
	Method, Target, Host, Hostname, Token string
	IsHead, HasBody                       bool
}

func parsedRequestOf(r *reqhead.Request) parsedRequest {
	return parsedRequest{
		string(r.Method()), string(r.Target()), string(r.Host()), string(r.Hostname()), string(r.Token()),
		r.IsHead(), r.HasBody(),
	}
}

func TestAccessors(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want parsedRequest
	}{
		"a challenge": {
			"GET /.well-known/acme-challenge/tok?en HTTP/1.1\r\nHost: API.example.com.:8080\r\n\r\n",
			parsedRequest{
				Method: "GET", Target: "/.well-known/acme-challenge/tok?en", Host: "api.example.com:8080",
				Hostname: "api.example.com", Token: "tok",
			},
		},
		"an address": {
			"HEAD /.well-known/acme-challenge/t HTTP/1.0\r\nHost: [2001:DB8::0:5]:8080\r\n\r\n",
			parsedRequest{
				Method: "HEAD", Target: "/.well-known/acme-challenge/t", Host: "[2001:db8::5]:8080",
				Hostname: "[2001:db8::5]", Token: "t", IsHead: true,
			},
		},
		"elsewhere": {
			"PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n",
			parsedRequest{Method: "PUT", Target: "/x", Host: "a", Hostname: "a", HasBody: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := new(reqhead.Request)
			if n, fault := r.Parse([]byte(test.text)); n != len(test.text) || fault != reqhead.None {
				t.Fatalf("Parse: %d, %v", n, fault)
			}
			if diff := cmp.Diff(test.want, parsedRequestOf(r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestAppendIPv6 checks the fields that address families write differently.
func TestAppendIPv6(t *testing.T) {
	r, _, fault := parseAndValidate([]byte("GET /.well-known/acme-challenge/t HTTP/1.0\r\n\r\n"))
	if fault != reqhead.None {
		t.Fatal(fault)
	}
	got := string(r.Append(nil, netip.MustParseAddr("2001:db8::99"), netip.MustParseAddr("2001:db8::5")))
	want := strings.Join([]string{
		"GET /.well-known/acme-challenge/t HTTP/1.1",
		"Host: [2001:db8::5]",
		"X-Forwarded-For: 2001:db8::99",
		"X-Forwarded-Proto: http",
		"X-Forwarded-Port: 80",
		`Forwarded: for="[2001:db8::99]";proto=http`,
		"Via: 1.0 http01-proxyd",
		"", "",
	}, "\r\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFaults checks that the response to every fault is an error and one line, and that the
// fault is counted.
func TestFaults(t *testing.T) {
	declared := declaredFaults(t)
	if len(declared) < 2 || declared[0] != "None" {
		t.Fatalf("the faults in the source: %v", declared)
	}
	for i, name := range declared[1:] {
		f := reqhead.Fault(i + 1)
		r := responseTo(f)
		phrase := http.StatusText(r.Status)
		switch r.Status { // net/http has the phrases of earlier RFCs
		case 413:
			phrase = "Content Too Large"
		case 414:
			phrase = "URI Too Long"
		}
		if r.Status < 400 || r.Status > 505 || r.Phrase != phrase {
			t.Errorf("%s has the status line %d %s", name, r.Status, r.Phrase)
		}
		if r.Text == "" || strings.ContainsAny(r.Text, "\r\n") {
			t.Errorf("%s has text %q", name, r.Text)
		}
		if !r.Rejection.Known() {
			t.Errorf("%s is counted as %q", name, r.Rejection)
		}
	}
}

// declaredFaults returns the names of all faults in the order of their values, from the block
// that begins with the type and iota.
func declaredFaults(t *testing.T) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "fault.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		block, ok := d.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST {
			continue
		}
		if of, ok := block.Specs[0].(*ast.ValueSpec).Type.(*ast.Ident); !ok || of.Name != "Fault" {
			continue
		}
		for _, spec := range block.Specs {
			for _, name := range spec.(*ast.ValueSpec).Names {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

// responseTo returns the zero value for a fault that is beyond the table of responses.
func responseTo(f reqhead.Fault) (r reqhead.Response) {
	defer func() { _ = recover() }()
	return f.Response()
}

func TestNoAllocations(t *testing.T) {
	text := []byte(letsEncrypt)
	r := new(reqhead.Request)
	out := make([]byte, 0, 4096)
	client, vip := netip.MustParseAddr("2001:db8::99"), netip.MustParseAddr("2001:db8::5")
	if n := testing.AllocsPerRun(100, func() {
		r.Reset()
		if n, fault := r.Parse(text); n == 0 || fault != reqhead.None || r.Validate(allowAnyHost, 0) != reqhead.None {
			t.Fatal("not accepted")
		}
		out = r.Append(out[:0], client, vip)
	}); n != 0 {
		t.Errorf("%v allocations per request", n)
	}
}

func addSeeds(f *testing.F) {
	f.Helper()
	for _, text := range []string{
		letsEncrypt,
		"GET /.well-known/acme-challenge/a%61/.b?c HTTP/1.0\r\nHost: A.b.:80\r\nConnection: x\r\nX: y\r\n\r\n",
		"HEAD /.well-known/acme-challenge/ HTTP/1.1\r\nHost: [::1]:8080\r\nContent-Length: 00\r\nExpect: 100-continue\r\n\r\n",
		"GET /.well-known/acme-challenge/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"GET /.well-known/acme-challenge/x HTTP/1.1\r\nHost: a\r\nX-A: \xff\t\r\nUpgrade: h2c\r\n\r\nGET / HTTP/1.1\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"GET /.well-known/acme-challenge/../x HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
		"GET /.well-known/acme-challenge/x HTTP/1.1\r\nHost: a\r\nX_Forwarded_For: b\r\nX-Original-URL: /\r\nProxy: " +
			"c\r\nCookie: d\r\nVia: 1.0 e\r\nuser-agent: f\r\nUser-Agent: g\r\n\r\n",
		"GET /.well-known/acme-challenge/x HTTP/1.1\r\nHost: a\r\nConnection: Via, Accept\r\nVia: 1.0 e, 1.1 " +
			"HTTP01-PROXYD (x)\r\nAccept: f\r\n\r\n",
	} {
		f.Add([]byte(text))
	}
}

// readOne reads exactly one request without a body, and fails if bytes remain.
func readOne(t *testing.T, text []byte) *http.Request {
	t.Helper()
	r := bufio.NewReader(bytes.NewReader(text))
	req, err := http.ReadRequest(r)
	if err != nil {
		t.Fatalf("net/http refuses %q: %v", text, err)
	}
	if body, err := io.ReadAll(req.Body); len(body) > 0 || err != nil {
		t.Fatalf("net/http finds a body in %q: %q, %v", text, body, err)
	}
	if rest, _ := io.ReadAll(r); len(rest) > 0 {
		t.Fatalf("net/http finds bytes after %q: %q", text, rest)
	}
	return req
}

// canonicalHost is a second implementation of the canonical form of a valid Host.
func canonicalHost(host string) string {
	host = strings.ToLower(host)
	name, port := host, ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		name, port = host[:i], strings.TrimLeft(host[i+1:], "0")
	}
	name = strings.TrimSuffix(name, ".")
	if strings.HasPrefix(name, "[") {
		name = "[" + netip.MustParseAddr(strings.Trim(name, "[]")).String() + "]"
	}
	if port == "" || port == "80" {
		return name
	}
	return name + ":" + port
}

// FuzzHead compares with net/http. An accepted head is the same single request
// there, and so is the forwarded head. Of the client's fields only the listed ones
// are forwarded, unchanged. A forwarded head that comes back is recognised.
func FuzzHead(f *testing.F) {
	addSeeds(f)
	client, vip := netip.MustParseAddr("192.0.2.99"), netip.MustParseAddr("192.0.2.5")
	f.Fuzz(func(t *testing.T, text []byte) {
		r, n, fault := parseAndValidate(text)
		if fault != reqhead.None || n == 0 {
			return
		}
		if n != len(text) {
			t.Fatalf("accepted with %d bytes left over", len(text)-n)
		}
		req := readOne(t, text)
		if req.Method != string(r.Method()) || req.RequestURI != string(r.Target()) ||
			canonicalHost(req.Host) != string(r.Host()) {
			t.Fatalf("net/http sees %q %q %q, we %q %q %q", req.Method, req.RequestURI, req.Host, r.Method(), r.Target(),
				r.Host())
		}
		if !strings.HasPrefix(req.URL.Path, reqhead.Prefix) || strings.Contains(req.URL.Path+"/", "/../") ||
			strings.Contains(req.URL.Path+"/", "/./") {
			t.Fatalf("net/http sees the path %q", req.URL.Path)
		}
		checkForwarded(t, req, r.Append(nil, client, vip))
	})
}

func checkForwarded(t *testing.T, req *http.Request, text []byte) {
	t.Helper()
	got := readOne(t, text)
	host := canonicalHost(req.Host)
	if req.Host == "" {
		host = "192.0.2.5"
	}
	if got.Method != req.Method || got.RequestURI != req.RequestURI || got.Host != host || got.Proto != "HTTP/1.1" {
		t.Fatalf("forwarded %q for %q %q %q", text, req.Method, req.RequestURI, req.Host)
	}
	for name, values := range got.Header {
		switch name {
		case "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "Forwarded":
			if len(values) != 1 {
				t.Fatalf("%s is forwarded %d times: %q", name, len(values), text)
			}
		case "Via":
			values = values[:len(values)-1] // the one that Append adds
			fallthrough
		case "Accept", "Accept-Encoding", "Accept-Language", "Cache-Control", "From", "If-Match", "If-Modified-Since",
			"If-None-Match", "If-Range", "If-Unmodified-Since", "Pragma", "Range", "Referer", "Traceparent", "Tracestate",
			"User-Agent":
			if len(values) > 0 && !slices.Equal(values, req.Header.Values(name)) {
				t.Fatalf("%s is forwarded as %q, it was %q", name, values, req.Header.Values(name))
			}
		default:
			t.Fatalf("%s is forwarded: %q", name, text)
		}
	}
	if diff := cmp.Diff([]string{"192.0.2.99"}, got.Header.Values("X-Forwarded-For")); diff != "" {
		t.Fatalf("X-Forwarded-For (-want +got):\n%s", diff)
	}
	// A forwarded head is well-formed for this parser too, and is never forwarded
	// again.
	parsed, n, fault := parseAndValidate(text)
	if fault == reqhead.TooManyFields {
		return // Append added fields to the largest number
	}
	if n != len(text) || fault != reqhead.Loop {
		t.Fatalf("the forwarded head %q comes back and is met with: %v", text, fault)
	}
	if string(parsed.Target()) != req.RequestURI {
		t.Fatalf("the forwarded head %q has another target", text)
	}
}

func BenchmarkParseAndValidate(b *testing.B) {
	text := []byte(letsEncrypt)
	r := new(reqhead.Request)
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		r.Reset()
		if n, _ := r.Parse(text); n == 0 || r.Validate(allowAnyHost, 0) != reqhead.None {
			b.Fatal("not accepted")
		}
	}
}

func BenchmarkParseValidateAppend(b *testing.B) {
	text := []byte(letsEncrypt)
	r := new(reqhead.Request)
	out := make([]byte, 0, 4096)
	client, vip := netip.MustParseAddr("192.0.2.99"), netip.MustParseAddr("192.0.2.5")
	b.ReportAllocs()
	for b.Loop() {
		r.Reset()
		if n, _ := r.Parse(text); n == 0 || r.Validate(allowAnyHost, 0) != reqhead.None {
			b.Fatal("not accepted")
		}
		out = r.Append(out[:0], client, vip)
	}
}
