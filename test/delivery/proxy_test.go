// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/lab"
)

const (
	egressPort = "3128"
	// proxyEnvironment is where a node's services read the cluster-wide proxy.
	proxyEnvironment = "/etc/mco/proxy.env"
)

// egress is a proxy on the worker that leads to the registry, whatever address
// its name has.
type egress struct {
	at       string // the registry's address and port
	from     *lab.Node
	mu       sync.Mutex
	asked    []string // what CONNECT has named, in order
	tunnels  sync.WaitGroup
	lifetime time.Duration // of a tunnel
}

// newEgress starts the proxy, which ends with the test, and returns its URL.
func newEgress(t *testing.T, s *site) (e *egress, url string) {
	t.Helper()
	node := s.Lab.Worker.Node
	e = &egress{
		at:   net.JoinHostPort(s.Lab.Internet.Addresses.V4.String(), "443"),
		from: node, lifetime: 2 * time.Minute,
	}
	listener, err := node.Listen(t.Context(), ":"+egressPort)
	must(t, err)
	server := &http.Server{Handler: e, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		must(t, server.Close())
		if err := <-served; err != http.ErrServerClosed { //nolint:errorlint // Serve returns it as it is
			t.Error(err)
		}
		e.tunnels.Wait()
	})
	return e, "http://" + net.JoinHostPort(node.Addresses.V4.String(), egressPort)
}

// ServeHTTP takes CONNECT alone (RFC 9110, section 9.3.6).
func (e *egress) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "CONNECT only", http.StatusMethodNotAllowed)
		return
	}
	e.mu.Lock()
	e.asked = append(e.asked, r.Host)
	e.mu.Unlock()
	up, err := e.from.Dial(r.Context(), "tcp", e.at)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	down, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = up.Close()
		return
	}
	e.tunnels.Go(func() { e.tunnel(down, up) })
}

// tunnel ends when either side has, or when its time is over.
func (e *egress) tunnel(down, up net.Conn) {
	end := time.Now().Add(e.lifetime)
	_, _ = down.SetDeadline(end), up.SetDeadline(end)
	var closing sync.Once
	both := func() { _, _ = down.Close(), up.Close() }
	defer closing.Do(both)
	if _, err := io.WriteString(down, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(down, up)
		closing.Do(both)
	})
	_, _ = io.Copy(up, down)
	closing.Do(both)
	back.Wait()
}

// connects lists what CONNECT has named so far, each once.
func (e *egress) connects() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(e.asked)))
}

// closed keeps a host from reaching the world by itself, on the way out of the
// machine network.
func (n *node) closed() {
	n.t.Helper()
	i := slices.Index(n.Masters, n.Host)
	var rules strings.Builder
	rules.WriteString("table inet egress {\n\tchain forward {\n\t\ttype filter hook forward priority filter;\n")
	for _, a := range n.Lab.MasterAddresses(i) {
		family := map[bool]string{true: "ip", false: "ip6"}[a.Addr().Is4()]
		fmt.Fprintf(&rules, "\t\t%s saddr %s tcp dport 443 counter reject with tcp reset\n", family, a.Addr())
	}
	_, err := n.Lab.Gateway.Input(n.t.Context(), rules.String()+"\t}\n}\n", "nft", "-f", "-")
	must(n.t, err)
	n.t.Cleanup(func() {
		_, err := n.Lab.Gateway.Run(context.Background(), "nft", "delete", "table", "inet", "egress")
		must(n.t, err)
	})
}

// A host that reaches the world by the cluster's proxy alone pulls by it.
func TestPullThroughEgressProxy(t *testing.T) {
	s := use(t)
	n := newNode(t, s)
	proxy, url := newEgress(t, s)
	n.closed()
	n.apply(s.images[first])
	n.saysOn(t, n.Host, "cannot pull")
	n.is(service, "inactive")

	must(t, n.WriteFile(proxyEnvironment, "HTTP_PROXY="+url+"\nHTTPS_PROXY="+url+"\nNO_PROXY=.cluster.local,.svc,127.0.0.1,localhost\n", 0o644))
	t.Cleanup(func() { must(t, n.RemoveFile("/etc/mco")) })
	_, err := n.Run(t.Context(), "systemctl", "restart", installer)
	must(t, err)
	n.saysOn(t, n.Host, "is installed")
	n.is(service, "active")
	must(t, s.runs(t.Context(), n.Host, first))
	if want, got := []string{s.Registry.Name + ":443"}, proxy.connects(); !slices.Equal(want, got) {
		t.Errorf("the proxy was asked for %q, want %q", got, want)
	}
}
