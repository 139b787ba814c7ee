// SPDX-License-Identifier: Apache-2.0

package httpfield_test

import (
	"bufio"
	"bytes"
	"net/textproto"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/internal/httpfield"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	type parts struct {
		Name, Value string
		Problem     httpfield.Fault
	}
	for name, test := range map[string]struct {
		line string
		want parts
	}{
		"a field":                       {"Host: a", parts{"Host", "a", httpfield.NoFault}},
		"no space":                      {"Host:a", parts{"Host", "a", httpfield.NoFault}},
		"no value":                      {"X:", parts{"X", "", httpfield.NoFault}},
		"only white space":              {"X: \t ", parts{"X", "", httpfield.NoFault}},
		"white space around and within": {"X: \t a \t b\t ", parts{"X", "a \t b", httpfield.NoFault}},
		"colons in the value":           {"X:::", parts{"X", "::", httpfield.NoFault}},
		"obs-text":                      {"X: \x80\xff", parts{"X", "\x80\xff", httpfield.NoFault}},
		"every character of a name":     {"!#$%&'*+-.^_`|~09AZaz: x", parts{"!#$%&'*+-.^_`|~09AZaz", "x", httpfield.NoFault}},
		"a folded line":                 {" a: b", parts{Problem: httpfield.Folded}},
		"folded with a tab":             {"\ta", parts{Problem: httpfield.Folded}},
		"nothing":                       {"", parts{Problem: httpfield.Malformed}},
		"no name":                       {": a", parts{Problem: httpfield.Malformed}},
		"no colon":                      {"Host", parts{Problem: httpfield.Malformed}},
		"a space before the colon":      {"Host : a", parts{Problem: httpfield.Malformed}},
		"a slash in the name":           {"a/b: c", parts{Problem: httpfield.Malformed}},
		"non-ASCII in the name":         {"\xc3\xa9: c", parts{Problem: httpfield.Malformed}},
		"a NUL":                         {"X: a\x00", parts{Problem: httpfield.Malformed}},
		"DEL behind eight bytes":        {"X: 12345678\x7f", parts{Problem: httpfield.Malformed}},
		"a CR":                          {"X: a\rb", parts{Problem: httpfield.BareCR}},
		"a CR behind a tab":             {"X: a\tb\r", parts{Problem: httpfield.BareCR}},
		"an LF":                         {"X: a\nb", parts{Problem: httpfield.Malformed}},
		"a NUL before a CR":             {"X: a\x00\r", parts{Problem: httpfield.Malformed}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, value, problem := httpfield.Split([]byte(test.line))
			if diff := cmp.Diff(test.want, parts{string(key), string(value), problem}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestViaNamesService(t *testing.T) {
	t.Parallel()
	for via, want := range map[string]bool{
		"1.1 http01-proxyd":                              true,
		"1.0 HTTP01-Proxyd":                              true,
		"HTTP/1.1 http01-proxyd (a comment)":             true,
		"1.0 fred, 1.1 p.example.net,1.1 http01-proxyd":  true,
		"1.1 \t http01-proxyd\t(x)":                      true,
		"1.0 fred (a, b), 1.1 http01-proxyd":             true,
		"1.1 http01-proxyd, 1.1 router":                  true,
		", ,1.1 http01-proxyd":                           true,
		"":                                               false,
		"http01-proxyd":                                  false,
		"1.1 http01-proxyd2":                             false,
		"1.1 http01":                                     false,
		"1.1 fred (http01-proxyd)":                       false,
		"1.1 router http01-proxyd":                       false,
		"1.1 http01-proxyd.example.com, 1.0 http01-prox": false,
	} {
		if got := httpfield.ViaNamesService([]byte(via)); got != want {
			t.Errorf("%q: %v, want %v", via, got, want)
		}
	}
	// The appended value is recognised.
	_, value, problem := httpfield.Split(bytes.TrimSuffix(httpfield.AppendVia(nil, 1), []byte("\r\n")))
	if problem != httpfield.NoFault || !httpfield.ViaNamesService(value) {
		t.Errorf("our own Via %q is not found", value)
	}
}

func TestListContains(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]bool{
		"close":            true,
		"a,Close":          true,
		"a, \tCLOSE ,b":    true,
		", ,close":         true,
		"":                 false,
		"closed":           false,
		"a close":          false,
		"clos,e":           false,
		"keep-alive;close": false,
	} {
		if got := httpfield.ListContains([]byte(list), []byte("close")); got != want {
			t.Errorf("%q: %v, want %v", list, got, want)
		}
	}
}

func TestNamedByConnection(t *testing.T) {
	t.Parallel()
	lines := []byte("X-A: x-c\r\nConnection: x-a, X-B\r\ncONNECTION:X-D\r\nX-E:\r\n")
	for name, want := range map[string]bool{
		"X-A": true, "x-b": true, "X-C": false, "X-d": true, "X-E": false,
		"X": false,
	} {
		if got := httpfield.NamedByConnection(lines, []byte(name)); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestToLower(t *testing.T) {
	t.Parallel()
	var buf [4]byte
	for name, want := range map[string]string{"HoSt": "host", "te": "te", "A-_": "a-_", "Hosts": ""} {
		if got := string(httpfield.ToLower(buf[:], []byte(name))); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if httpfield.ToLower(buf[:], []byte("12345")) != nil {
		t.Error("a name that does not fit is not nil")
	}
}

// TestLines reads a head in every pair of pieces, in a buffer that moves.
func TestLines(t *testing.T) {
	t.Parallel()
	const text = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	want := []string{"GET / HTTP/1.1", "Host: a", ""}
	for cut := range len(text) + 1 {
		var l httpfield.Lines
		var got []string
		for _, part := range []string{text[:cut], text} {
			for {
				from, to, found, ok := l.Next([]byte(part))
				if !ok {
					t.Fatalf("cut at %d: refused", cut)
				}
				if !found {
					break
				}
				got = append(got, part[from:to])
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || l.Consumed() != len(text) {
			t.Errorf("cut at %d, %d used (-want +got):\n%s", cut, l.Consumed(), diff)
		}
	}
	for _, bad := range []string{"\n", "a\n", "a\r\n\n", "a\r\nb\n"} {
		var l httpfield.Lines
		for {
			_, _, found, ok := l.Next([]byte(bad))
			if !ok {
				break
			}
			if !found {
				t.Fatalf("%q is accepted", bad)
			}
		}
	}
}

// isTextReference is IsText without the optimisation.
func isTextReference(b []byte) bool {
	return !bytes.ContainsFunc(b, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

func TestIsTextAtEveryOffset(t *testing.T) {
	t.Parallel()
	for c := range 256 {
		for at := range 20 {
			b := bytes.Repeat([]byte{'x'}, 20)
			b[at] = byte(c)
			if got, want := httpfield.IsText(b), isTextReference(b); got != want {
				t.Errorf("%#02x at %d: %v, want %v", c, at, got, want)
			}
		}
	}
}

// FuzzSplit: an accepted line is the same single field for net/textproto, and for
// Next.
func FuzzSplit(f *testing.F) {
	for _, line := range []string{
		"Host: a", "X: \t a b ", " folded", "X : y", "Via: 1.1 a (b, c), 1.0 d", "X:\x80", ":",
		"a_b:c\r", "X: 12345678\x7f",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		name, value, problem := httpfield.Split(line)
		if problem != httpfield.NoFault {
			if name != nil || value != nil {
				t.Fatalf("refused, and yet %q %q", name, value)
			}
			return
		}
		if bytes.ContainsAny(line, "\r\n\x00") || len(bytes.Trim(value, " \t")) != len(value) || !isTextReference(value) {
			t.Fatalf("accepted %q as %q %q", line, name, value)
		}
		lines := append(bytes.Clone(line), "\r\n"...)
		again, same, rest := httpfield.Next(lines)
		if !bytes.Equal(again, name) || !bytes.Equal(same, value) || len(rest) != 0 {
			t.Fatalf("Next reads %q %q and leaves %q; Split %q %q", again, same, rest, name, value)
		}
		if found := httpfield.Value(lines, strings.ToLower(string(name))); found == nil || !bytes.Equal(found, value) {
			t.Fatalf("Value reads %q; Split %q", found, value)
		}
		head, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(append(lines, "\r\n"...)))).ReadMIMEHeader()
		if err != nil {
			t.Fatalf("net/textproto refuses %q: %v", line, err)
		}
		if got := head[textproto.CanonicalMIMEHeaderKey(string(name))]; len(head) != 1 || len(got) != 1 ||
			got[0] != string(value) {
			t.Fatalf("net/textproto sees %q, we %q %q", head, name, value)
		}
		checkLists(t, name, value)
	})
}

// checkLists compares the list functions with simple ones.
func checkLists(t *testing.T, name, value []byte) {
	t.Helper()
	has := false
	for item := range strings.SplitSeq(string(value), ",") {
		item = strings.Trim(item, " \t")
		has = has || strings.EqualFold(item, string(name))
	}
	// An empty list has no members.
	if got := httpfield.ListContains(value, name); got != (has && len(value) > 0) {
		t.Fatalf("%q has %q: %v", value, name, got)
	}
	here := false
	for item := range strings.SplitSeq(string(value), ",") {
		words := strings.FieldsFunc(item, func(r rune) bool { return r == ' ' || r == '\t' })
		here = here || len(words) > 1 && strings.EqualFold(words[1], httpfield.ServiceName)
	}
	if got := httpfield.ViaNamesService(value); got != here {
		t.Fatalf("%q has passed here: %v", value, got)
	}
}

func TestNoAllocations(t *testing.T) {
	line := []byte("Connection: keep-alive, X-A, 1.1 fred")
	lines := append(bytes.Clone(line), "\r\n"...)
	if n := testing.AllocsPerRun(100, func() {
		var low [32]byte
		var l httpfield.Lines
		_, _, found, _ := l.Next(lines)
		name, value, problem := httpfield.Split(line)
		if !found || problem != httpfield.NoFault || httpfield.ViaNamesService(value) || !httpfield.ListContains(value,
			[]byte("x-a")) ||
			!httpfield.NamedByConnection(lines, []byte("x-a")) || string(httpfield.ToLower(low[:], name)) != "connection" {
			t.Fatal("not read as expected")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
