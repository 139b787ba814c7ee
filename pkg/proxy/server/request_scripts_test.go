// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// requestScript is one case of test/requests, whose README explains the lines.
type requestScript struct {
	Name      string
	Request   string
	EOF       bool
	Forwarded []string
	None      bool
	Status    int
	Body      string
}

var repetition = regexp.MustCompile(`\{([^{}]+)\*(\d+)\}`)

// unescape converts the text of a script to bytes.
func unescape(text string) (string, error) {
	// Only backslash sequences are special; quotes are not.
	s, err := strconv.Unquote(`"` + strings.ReplaceAll(text, `"`, `\"`) + `"`)
	if err != nil {
		return "", fmt.Errorf("bad escape in %q: %w", text, err)
	}
	return repetition.ReplaceAllStringFunc(s, func(m string) string {
		part := repetition.FindStringSubmatch(m)
		n, _ := strconv.Atoi(part[2])
		return strings.Repeat(part[1], n)
	}), nil
}

func proxyFields(host string) []string {
	return []string{
		"X-Forwarded-For: 127.0.0.1",
		"X-Forwarded-Host: " + host,
		"X-Forwarded-Proto: http",
		"X-Forwarded-Port: 80",
		"Forwarded: for=127.0.0.1;host=" + host + ";proto=http",
		"Via: 1.1 http01-proxyd",
	}
}

func parseScripts(t *testing.T, file string) []requestScript {
	t.Helper()
	var all []requestScript
	for i, line := range strings.Split(readFile(t, file), "\n") {
		if line == "" || strings.HasPrefix(line, "# ") {
			continue
		}
		if name, ok := strings.CutPrefix(line, "=== "); ok {
			all = append(all, requestScript{Name: name})
			continue
		}
		if len(all) == 0 {
			t.Fatalf("%s:%d: a line before the first case", file, i+1)
		}
		if err := all[len(all)-1].parseLine(line); err != nil {
			t.Fatalf("%s:%d: %v", file, i+1, err)
		}
	}
	for _, s := range all {
		if s.Request == "" || s.Status == 0 || s.None == (len(s.Forwarded) > 0) {
			t.Fatalf("%s: case %q is incomplete", file, s.Name)
		}
	}
	return all
}

func (s *requestScript) parseLine(line string) error {
	mark, text, _ := strings.Cut(line, " ")
	text, err := unescape(text)
	if err != nil {
		return err
	}
	switch mark {
	case ">":
		s.Request += text + "\r\n"
	case ">>":
		s.Request += text
	case "!":
		s.EOF = text == "eof"
	case "=":
		host, ours := strings.CutPrefix(text, "@proxy ")
		switch {
		case text == "none":
			s.None = true
		case ours:
			s.Forwarded = append(s.Forwarded, proxyFields(host)...)
		default:
			s.Forwarded = append(s.Forwarded, text)
		}
	case "<":
		code, body, _ := strings.Cut(text, " ")
		s.Status, err = strconv.Atoi(code)
		s.Body = body
	default:
		return fmt.Errorf("unknown mark %q", mark)
	}
	return err
}

// TestRequests runs the scripts of test/requests.
func TestRequests(t *testing.T) {
	files, err := filepath.Glob("../../../test/requests/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, file := range files {
		scripts := parseScripts(t, file)
		count += len(scripts)
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			s := testSettings()
			if strings.HasPrefix(filepath.Base(file), "hosts-") {
				s.Hosts = []string{"api.example.com", "2001:db8::5"}
			}
			reached := make(chan string, 16)
			router := startIngress(t, func(tcp *net.TCPConn, r *bufio.Reader) {
				for {
					request := readHead(r)
					if request == "" {
						return
					}
					reached <- request
					response := okResponse
					if strings.HasPrefix(request, "HEAD ") {
						response = strings.TrimSuffix(okResponse, "token.key")
					}
					if _, err := io.WriteString(tcp, response); err != nil {
						return
					}
				}
			})
			f := startServer(t, s, router)
			for _, c := range scripts {
				t.Run(c.Name, func(t *testing.T) { playScript(t, f, c, reached) })
			}
		})
	}
	// A missing folder must not pass.
	if count < 150 {
		t.Errorf("%d cases found, want at least 150", count)
	}
}

func playScript(t *testing.T, f *testServer, c requestScript, reached <-chan string) {
	t.Helper()
	tcp := dial(t, f.addr)
	send(t, tcp, c.Request)
	if c.EOF {
		if err := tcp.CloseWrite(); err != nil {
			t.Fatal(err)
		}
	}
	whole := readAll(t, tcp)
	method := "GET"
	if strings.HasPrefix(c.Request, "HEAD ") {
		method = "HEAD"
	}
	response, err := http.ReadResponse(bufio.NewReader(strings.NewReader(whole)), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("answer %q: %v", whole, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("answer %q: %v", whole, err)
	}
	got := requestScript{Name: c.Name, Request: c.Request, EOF: c.EOF, Status: response.StatusCode, Body: string(body)}
	for len(reached) > 0 {
		got.Forwarded = append(got.Forwarded, strings.Split(strings.TrimSuffix(<-reached, "\r\n\r\n"), "\r\n")...)
	}
	got.None = got.Forwarded == nil
	if diff := cmp.Diff(c, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	checkResponseHead(t, response, c, whole)
}

// checkResponseHead checks the fields of every response.
func checkResponseHead(t *testing.T, response *http.Response, c requestScript, whole string) {
	t.Helper()
	if !response.Close {
		t.Errorf("the answer lacks Connection: close:\n%s", whole)
	}
	if response.ContentLength < 0 {
		t.Errorf("the answer has no Content-Length:\n%s", whole)
	}
	if allow := response.Header.Get("Allow"); (allow == "GET, HEAD") != (c.Status == 405) {
		t.Errorf("Allow is %q with status %d", allow, c.Status)
	}
	if status := response.Header.Get(
		"Proxy-Status"); (status == "http01-proxyd; error=proxy_loop_detected") != (c.Status == 502) {
		t.Errorf("Proxy-Status is %q with status %d", status, c.Status)
	}
	if c.Status == 200 {
		return
	}
	want := map[string]string{"Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-store"}
	for name, value := range want {
		if got := response.Header.Get(name); got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
}
