// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// onlyChallenges is the answer to every request other than a challenge.
const onlyChallenges = "Only /.well-known/acme-challenge/* is allowed"

// TestRouterAnswers holds that the router's own answers reach the client unchanged and that
// the status has the cause of each.
func TestRouterAnswers(t *testing.T) {
	l, _ := cluster(t)
	n := l.ControlPlane[0].Node
	s := start(t, n, ServiceOptions{Config: n.DefaultConfig() + "upstream: {followRedirects: false}\n"})
	redirected := publishName(t, l, "redirected", l.API)
	undo, err := l.Worker.RedirectToHTTPS(t.Context(), redirected)
	must(t, err)
	t.Cleanup(func() { must(t, undo(context.Background())) })

	const path = "/.well-known/acme-challenge/no-such-token-anywhere"
	tests := []struct {
		name, host string
		status     int
		cause      string
		shows      func(Answer) bool
	}{
		{
			name: "no route", host: publishName(t, l, "unrouted", l.API), status: http.StatusServiceUnavailable,
			cause: "route-missing",
			shows: func(a Answer) bool { return strings.Contains(a.Body, "No route") },
		},
		{
			name: "redirect to https", host: redirected, status: http.StatusFound,
			cause: "route-redirects-https",
			shows: func(a Answer) bool { return a.Header.Get("Location") == "https://"+redirected+path },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			answer, err := l.Internet.Get(t.Context(), "http://"+tt.host+path)
			must(t, err)
			if answer.Status != tt.status || !tt.shows(answer) {
				t.Errorf("got %+v", answer)
			}
			seen, err := s.Await(t.Context(), "the challenge", func(seen Status) error {
				if n := len(seen.Challenges.Recent); n == 0 || seen.Challenges.Recent[n-1].Host != tt.host {
					return errors.New("not listed yet")
				}
				return nil
			})
			must(t, err)
			last := seen.Challenges.Recent[len(seen.Challenges.Recent)-1]
			if last.Status != tt.status || last.Cause != tt.cause || last.Detail == "" {
				t.Errorf("status: %+v", last)
			}
			if last.TokenPrefix != "no-such-" || strings.Contains(last.Detail+seen.Condition().Message, "no-such-token") {
				t.Errorf("the status has more than 8 characters of the token: %+v", last)
			}
		})
	}
	if log := s.Tail(1000); strings.Contains(log, "no-such-token") {
		t.Errorf("the log has the whole token:\n%s", log)
	}
}

func TestHosts(t *testing.T) {
	l, _ := cluster(t)
	listed := publishName(t, l, "listed", l.API)
	other := publishName(t, l, "other", l.API)
	node := l.ControlPlane[0].Node
	start(t, node, ServiceOptions{Config: node.DefaultConfig() + "hosts: [" + listed + "]\n"})
	orderCertificate(t, l, listed, l.Pods[0])
	answer, err := l.Internet.Get(t.Context(), "http://"+other+"/.well-known/acme-challenge/token")
	must(t, err)
	if answer.Status != http.StatusBadRequest || answer.Body != onlyChallenges {
		t.Errorf("a name that is not listed: %+v", answer)
	}
}

// TestAPINameIsTheDefault holds that without hosts the VIP answers challenges for the API's name
// only, as soon as the file with that name exists and while the service runs. A self-test of the
// VIP succeeds. hosts can accept any name.
func TestAPINameIsTheDefault(t *testing.T) {
	l, _ := cluster(t)
	name, other := publishName(t, l, "api", l.API), publishName(t, l, "console", l.API)
	node := l.ControlPlane[0].Node
	const more = "selfTest: {interval: 10s}\n"
	s := start(t, node, ServiceOptions{Config: node.DefaultConfig() + more})
	request := func(host string) int {
		t.Helper()
		answer, err := l.Internet.Get(t.Context(), "http://"+host+"/.well-known/acme-challenge/token")
		must(t, err)
		if refused := answer.Status == http.StatusBadRequest; refused != (answer.Body == onlyChallenges) {
			t.Errorf("%s: %+v", host, answer)
		}
		return answer.Status
	}
	expect := func(when, source string, names []string, note string, statusOfOther int) Status {
		t.Helper()
		seen, err := s.Await(t.Context(), when, func(seen Status) error {
			h := seen.Hosts
			if h.Source != source || !slices.Equal(h.Names, names) || !strings.Contains(h.Note, note) ||
				(h.Note == "") != (note == "") {
				return fmt.Errorf("accepted: %+v", h)
			}
			if got := request(other); got != statusOfOther {
				return fmt.Errorf("a challenge for another name: %d", got)
			}
			return nil
		})
		must(t, err)
		if got := request(name); got != http.StatusServiceUnavailable { // no solver has the token
			t.Errorf("%s: a challenge for the API's name: %d", when, got)
		}
		return seen
	}
	expect("a host without the API's name", "unknown", []string{}, "no such file or directory: set hosts in",
		http.StatusServiceUnavailable)
	must(t, node.WriteAPIServerURL("api-int."+strings.TrimPrefix(name, "api.")))
	t.Cleanup(func() { _ = os.Remove(node.APIServerURL()) })
	seen := expect("the API's name", "api-name", []string{name}, "", http.StatusBadRequest)
	if want := "; accepts challenges for " + name + " only (the API's name in " + node.APIServerURL() + ")"; seen.Hosts.
		Path != node.APIServerURL() || !strings.HasSuffix(seen.Condition().Message, want) {
		t.Errorf("state %q, accepted %+v", seen.Condition().Message, seen.Hosts)
	}
	orderCertificate(t, l, name, l.Pods[0])
	_, err := s.Await(t.Context(), "the self-tests", func(seen Status) error {
		if len(seen.SelfTests) != 2 || !seen.SelfTests[0].OK || !seen.SelfTests[1].OK {
			return fmt.Errorf("results: %+v", seen.SelfTests)
		}
		return nil
	})
	must(t, err)
	must(t, node.WriteConfig(node.DefaultConfig()+"hosts: ['*']\n"))
	expect(`hosts: ["*"]`, "any", []string{}, "", http.StatusServiceUnavailable)
	must(t, node.WriteConfig(node.DefaultConfig()))
	expect("the defaults again", "api-name", []string{name}, "", http.StatusBadRequest)
	must(t, os.Remove(node.APIServerURL()))
	expect("a file that is removed", "unknown", []string{}, "no such file or directory", http.StatusServiceUnavailable)
}

// TestDirect holds that the service's own port refuses direct connections to the VIP and to
// the node's own address.
func TestDirect(t *testing.T) {
	l, _ := cluster(t)
	start(t, l.ControlPlane[0].Node, ServiceOptions{})
	for _, from := range []*Node{l.Internet.Node, l.Pods[0], l.ControlPlane[0].Node, l.ControlPlane[1].Node} {
		for _, to := range append(l.API.Both(), l.ControlPlane[0].Addresses.Both()...) {
			awaitRefused(t, from, netip.AddrPortFrom(to, 8888).String())
		}
	}
}

// TestOtherTraffic holds that other traffic is unaffected: a long connection to the API's
// port survives start and stop, and port 80 of the node's own address stays usable, where a
// compact cluster's router listens on *:80.
func TestOtherTraffic(t *testing.T) {
	l, _ := cluster(t)
	master := l.ControlPlane[0].Node
	echo(t, master, "[::]:6443")
	echo(t, master, "[::]:80")

	var api []net.Conn
	for _, vip := range l.API.Both() {
		conn, err := l.Internet.Dial(t.Context(), "tcp", netip.AddrPortFrom(vip, 6443).String())
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		api = append(api, conn)
	}
	same := func(when string) {
		t.Helper()
		for _, conn := range api {
			if got := sendAndReceive(t, conn, when); got != when {
				t.Errorf("%s: the connection to the API at %s returned %q", when, conn.RemoteAddr(), got)
			}
		}
		for _, own := range master.Addresses.Both() {
			conn, err := l.Internet.Dial(t.Context(), "tcp", web(own))
			must(t, err)
			if got := sendAndReceive(t, conn, when); got != when {
				t.Errorf("%s: the node's own port 80 returned %q", when, got)
			}
			_ = conn.Close()
		}
	}
	same("before")
	s := start(t, master, ServiceOptions{})
	same("during")
	for _, vip := range l.API.Both() {
		text, err := l.Internet.Raw(t.Context(), web(vip), "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		must(t, err)
		if !strings.HasSuffix(text, onlyChallenges) {
			t.Errorf("port 80 of %s does not reach the service: %q", vip, text)
		}
	}
	must(t, s.Stop(t.Context()))
	same("after")
}

// echo runs an echo server on a node.
func echo(t *testing.T, n *Node, address string) {
	t.Helper()
	listener, err := n.Listen(t.Context(), address)
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
}

func sendAndReceive(t *testing.T, conn net.Conn, text string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), eventuallyTimeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	must(t, conn.SetDeadline(deadline))
	_, err := io.WriteString(conn, text)
	must(t, err)
	back := make([]byte, len(text))
	if _, err := io.ReadFull(conn, back); err != nil && !errors.Is(err, unix.ECONNRESET) {
		t.Fatal(err)
	}
	return string(back)
}

// TestUntouchedBody compares status, cookie and body through the VIP with the router's
// direct answer.
func TestUntouchedBody(t *testing.T) {
	l, _ := cluster(t)
	start(t, l.ControlPlane[0].Node, ServiceOptions{})
	host := publishName(t, l, "untouched", l.API)
	slow := startSlowBackend(t, l, host)
	close(slow.release)
	var answers []Answer
	for _, vip := range []netip.Addr{l.Ingress.V4, l.API.V4, l.API.V6} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://"+web(vip)+"/.well-known/acme-challenge/token?query=kept", nil)
		must(t, err)
		request.Host = host
		answer, err := do(l.Internet.Client(), request)
		must(t, err)
		answers = append(answers, answer)
	}
	for _, through := range answers[1:] {
		if diff := cmp.Diff(answers[0].Body, through.Body); diff != "" {
			t.Errorf("body (-router +through the VIP):\n%s", diff)
		}
		if answers[0].Status != through.Status || through.Header.Get("Set-Cookie") == "" ||
			answers[0].Header.Get("Set-Cookie") != through.Header.Get("Set-Cookie") {
			t.Errorf("router: %d %v, through the VIP: %d %v", answers[0].Status, answers[0].Header, through.Status,
				through.Header)
		}
	}
}
