// SPDX-License-Identifier: Apache-2.0

package egress_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
)

// read is the result of the parser in one comparable value.
type read struct{ http, https, no string }

func readText(t *testing.T, text string) (read, error) {
	t.Helper()
	e, err := egress.ReadEnvironment([]byte(text))
	return read{e.HTTPProxy.Reveal(), e.HTTPSProxy.Reveal(), e.NoProxy.Reveal()}, err
}

type sample struct {
	text string
	want read
}

// files are file contents and the result of systemd.
func files() []sample {
	return []sample{
		{"", read{}},
		{"HTTP_PROXY=http://p:3128\nHTTPS_PROXY=http://p:3129\nNO_PROXY=a,b\n", read{"http://p:3128", "http://p:3129", "a,b"}},
		{"HTTP_PROXY=http://p:3128\r\nHTTPS_PROXY=http://p:3129\r\nNO_PROXY=a,b\r\n", read{"http://p:3128", "http://p:3129", "a,b"}},
		{"# HTTP_PROXY=http://x\n; NO_PROXY=x\n\nno_proxy = 'a, b'\nhttp_proxy=\"p\"\n", read{http: "p", no: "a, b"}},
		{"HTTP_PROXY=http://old\nHTTP_PROXY=\n", read{}},
		{"HTTP_PROXY=http://old\nHTTP_PROXY=http://new", read{http: "http://new"}},
		{"  HTTP_PROXY \t=\t a b \t\n", read{http: "a b"}},
		{"HTTP_PROXY='a'\"b\"c'd'\"e\"\n", read{http: `abc'd'"e"`}},
		{"HTTP_PROXY='a' 'b'  \n", read{http: "ab"}},
		{"HTTP_PROXY=\"a \\\" \\\\ \\x \\` b\"\n", read{http: "a \" \\ \\x ` b"}},
		{"HTTP_PROXY='a\\'\n", read{http: `a\`}},
		{"NO_PROXY=a,\\\nb,\\\n c\n", read{no: "a,b, c"}},
		{"NO_PROXY=\"a,\\\nb\"\n", read{no: "a,b"}},
		{"NO_PROXY=a\\ \n", read{no: "a "}},
		{"NO_PROXY=a \\\n\nHTTP_PROXY=p\n", read{"p", "", "a "}},
		{"NO_PROXY=\\a\\\\\n", read{no: `a\`}},
		{"NO_PROXY=a # b\n", read{no: "a # b"}},
		{"NO_PROXY=a\\\r\nHTTP_PROXY=p\n", read{http: "p", no: "a"}},
		{"export HTTP_PROXY=a\nOTHER=1\nnonsense\nhttps_proxy=b\n", read{https: "b"}},
		{"=a\nHTTP_PROXY=b=c\n", read{http: "b=c"}},
		{"HTTP_PROXY=http://user:p%40ss%3Aw%25rd@p:3128\n", read{http: "http://user:p%40ss%3Aw%25rd@p:3128"}},
		{"http_proxy=lower\nHTTP_PROXY=upper\nhttps_proxy=lower\n", read{"upper", "lower", ""}},
		{"HTTP_PROXY=\"a b\"   c   \n", read{http: "a bc"}},
		{"HTTP_PROXY=é\n", read{http: "é"}},
		{"#\nHTTP_PROXY=p", read{http: "p"}},
	}
}

func TestReadEnvironment(t *testing.T) {
	t.Parallel()
	for _, tt := range files() {
		got, err := readText(t, tt.text)
		if err != nil || got != tt.want {
			t.Errorf("%q: got %+v, %v, want %+v", tt.text, got, err, tt.want)
		}
	}
}

func TestReadEnvironmentRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text    string
		line    int
		message string
	}{
		{"HTTP_PROXY=a\nNO_PRO", 2, "the file ends inside this line"},
		{"HTTP_PROXY=\"s3cret\nOTHER=1\n", 1, "quote"},
		{"#\r\n\r\nHTTP_PROXY='s3cret", 3, "quote"},
		{"#\r\rHTTP_PROXY=\"s3cret\\", 3, "quote"},
		{"OTHER=1\nHTTP_PROXY=s3cret\\", 2, "the file ends inside this line"},
		{"OTHER=1\nHTTP_PROXY=s3cret\x00\n", 2, "NUL"},
		{"OTHER=1\nHTTP_PROXY=s3cret\xff\n", 2, "UTF-8"},
		{strings.Repeat("s3cret=1\n", egress.MaxFile/9+1), 1 + egress.MaxFile/9, "longer than"},
	}
	for _, tt := range tests {
		_, err := readText(t, tt.text)
		var at *egress.LineError
		if !errors.As(err, &at) || at.Line != tt.line || !strings.Contains(err.Error(), tt.message) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%.40q: got %v, want line %d and %q", tt.text, err, tt.line, tt.message)
		}
	}
}

// TestReadEnvironmentTruncated: each prefix of a valid file is either an error with a
// line, or gives the result of systemd. No error contains part of a value.
func TestReadEnvironmentTruncated(t *testing.T) {
	t.Parallel()
	const whole = "# proxy\nHTTP_PROXY=\"http://user:s3cret@p:3128\"\nHTTPS_PROXY='http://user:s3cret@p:3128'\nNO_PROXY=a,\\\nb\n"
	refused := 0
	for n := range whole {
		_, err := readText(t, whole[:n])
		var at *egress.LineError
		switch {
		case err == nil:
		case !errors.As(err, &at) || at.Line < 2 || at.Line > 5 || strings.Contains(err.Error(), "s3c"):
			t.Errorf("%q: %v", whole[:n], err)
		default:
			refused++
		}
	}
	if refused < len(whole)/2 {
		t.Errorf("%d of %d beginnings are refused", refused, len(whole))
	}
}

// TestVariableIsHidden: a value may contain credentials, so it is never printed.
func TestVariableIsHidden(t *testing.T) {
	t.Parallel()
	e, err := egress.ReadEnvironment([]byte("HTTP_PROXY=s3cret\n"))
	if err != nil {
		t.Fatal(err)
	}
	type outer struct{ hidden egress.Environment }
	for _, verb := range []string{"%v", "%+v", "%#v", "%q", "%s", "%x"} {
		for _, v := range []any{e, &e, e.HTTPProxy, outer{e}} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, "s3cret") || strings.Contains(text, "733363") {
				t.Errorf("%s: %s", verb, text)
			}
		}
	}
}

// generator is a program of systemd that reads such files with the function that
// EnvironmentFile= uses (environment.d(5)). It needs no service manager.
const generator = "/usr/lib/systemd/user-environment-generators/30-systemd-environment-d-generator"

// systemdReads returns the result of systemd for a text.
func systemdReads(t *testing.T, text string) read {
	t.Helper()
	home := t.TempDir()
	dir := filepath.Join(home, "environment.d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "proxy.conf"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), generator)
	cmd.Env = []string{"XDG_CONFIG_HOME=" + home, "HOME=" + home}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", generator, err)
	}
	found := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		found[name] = unquoted(value)
	}
	either := func(name string) string {
		if v := found[name]; v != "" {
			return v
		}
		return found[strings.ToLower(name)]
	}
	return read{either("HTTP_PROXY"), either("HTTPS_PROXY"), either("NO_PROXY")}
}

// unquoted reverts the generator's quoting for a shell.
func unquoted(value string) string {
	inner, is := strings.CutPrefix(value, `"`)
	if !is {
		return value
	}
	var b strings.Builder
	inner = strings.TrimSuffix(inner, `"`)
	for i := 0; i < len(inner); i++ {
		if inner[i] == '\\' && i+1 < len(inner) {
			i++
		}
		b.WriteByte(inner[i])
	}
	return b.String()
}

// comparableText reports whether the generator's output can be compared: it expands
// variables, skips empty assignments (load_env_file, unlike EnvironmentFile=), prints
// line ends unchanged, and, in systemd before v254, continues a comment after a
// backslash.
func comparableText(text string, got read) bool {
	all := got.http + got.https + got.no
	comment := strings.ContainsAny(text, "#;") && strings.Contains(text, `\`)
	control := strings.ContainsFunc(all, func(r rune) bool { return r < ' ' || (r >= 0x7f && r < 0xa0) || r == 0xfeff })
	empty := regexp.MustCompile(`=([ \t]|\\[\r\n]|''|"")*([\r\n]|$)`).MatchString(text)
	return !empty && !strings.Contains(text, "$") && !comment && !control && len(text) < 4096
}

func TestReadsLikeSystemd(t *testing.T) {
	t.Parallel()
	compared := 0
	for _, tt := range files() {
		if !comparableText(tt.text, tt.want) {
			continue
		}
		compared++
		if got := systemdReads(t, tt.text); got != tt.want {
			t.Errorf("%q: systemd reads %+v, want %+v", tt.text, got, tt.want)
		}
	}
	if compared < 20 {
		t.Errorf("only %d compared", compared)
	}
}

func FuzzReadEnvironment(f *testing.F) {
	for _, tt := range files() {
		f.Add([]byte(tt.text))
	}
	f.Add([]byte("HTTP_PROXY=\"a\nb"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := readText(t, string(text))
		var at *egress.LineError
		switch {
		case err == nil:
		case !errors.As(err, &at) || at.Line < 1 || at.Line > 1+bytes.Count(text, []byte("\n"))+bytes.Count(text, []byte("\r")):
			t.Fatalf("%q: %v", text, err)
		default:
			return
		}
		if !comparableText(string(text), got) {
			return
		}
		if want := systemdReads(t, string(text)); got != want {
			t.Errorf("%q: got %+v, systemd reads %+v", text, got, want)
		}
	})
}
