// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// eventually tries until it succeeds.
func eventually(t *testing.T, try func() error) error {
	t.Helper()
	return lab.Eventually(t.Context(), t.Name(), func(context.Context) error { return try() })
}

// exitCode is that of a command that was run, 0 for one that went well.
func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// TestPortTaken: the service reports the process that has its port and installs
// nothing, check reports the same, and the service serves once the port is free.
func TestPortTaken(t *testing.T) {
	c := healthy(t, nil)
	n := c.holder()
	c.stop(c.Services[0])
	listener, err := n.Listen(t.Context(), ":8888")
	must(t, err)
	defer listener.Close()
	self, err := os.ReadFile("/proc/self/comm")
	must(t, err)
	s, err := n.StartService(t.Context(), lab.ServiceOptions{Binary: shared.binary})
	must(t, err)
	t.Cleanup(func() { c.stop(s) })
	seen := c.awaitReason(s, "PortInUse")
	if p := seen.Condition(); p.Status != "False" || !strings.Contains(p.Message, "8888") || !strings.Contains(p.Message, strconv.Itoa(os.Getpid())) || seen.Table.Present {
		t.Errorf("%+v with the table %+v", p, seen.Table)
	}
	r := c.expectFindings(n, []string{"port-taken"})
	c.expectText(r, "port-taken", "port 8888", "("+strings.TrimSpace(string(self))+")", "internalPort")
	must(t, listener.Close())
	c.awaitReason(s, "Serving")
}

// TestPortTakenWithoutService: so it is without the service too, which is then not
// there either.
func TestPortTakenWithoutService(t *testing.T) {
	c := healthy(t, nil)
	c.stop(c.Services[0])
	listener, err := c.holder().Listen(t.Context(), ":8888")
	must(t, err)
	defer listener.Close()
	c.expectFindings(c.holder(), []string{"port-taken", "service-down"})
}

// TestMetricsPortTaken: metrics are not served where somebody else listens, and
// challenges are answered all the same.
func TestMetricsPortTaken(t *testing.T) {
	c := healthy(t, nil)
	n := c.holder()
	listener, err := n.Listen(t.Context(), ":9645")
	must(t, err)
	c.configure(n.DefaultConfig()+"metrics: {listenAddress: \":9645\"}\n", "Serving")
	self, err := os.ReadFile("/proc/self/comm")
	must(t, err)
	r := c.expectFindings(n, []string{"metrics-port-taken"})
	c.expectText(r, "metrics-port-taken", "not served on [::]:9645", "("+strings.TrimSpace(string(self))+")", "metrics.listenAddress")
	if p := r.Check("port"); p.Outcome != "warning" {
		t.Errorf("%+v", p)
	}
	must(t, listener.Close())
	must(t, eventually(t, func() error {
		conn, err := n.Dial(t.Context(), "tcp", "127.0.0.1:9645")
		if err != nil {
			return err
		}
		return conn.Close()
	}))
	c.expectFindings(n, []string{})
}

func TestServiceDown(t *testing.T) {
	c := healthy(t, nil)
	c.stop(c.Services[0])
	c.expectFindings(c.holder(), []string{"service-down"})
}

// TestServiceHangs has a service that runs and does nothing any more. The process
// that answers the clients goes on.
func TestServiceHangs(t *testing.T) {
	c := healthy(t, nil)
	c.freeze(c.Services[0])
	r := c.expectFindings(c.holder(), []string{"service-hangs"})
	c.expectText(r, "service-hangs", "the service runs and does not answer: ", "timeout")
}

// TestServiceReportUnreadable has the status socket answer with something else than a
// report: the service runs, and nobody is advised to stop what has its port.
func TestServiceReportUnreadable(t *testing.T) {
	c := healthy(t, nil)
	path := filepath.Join(t.TempDir(), "status.sock")
	socket, err := net.Listen("unix", path)
	must(t, err)
	defer socket.Close()
	go func() {
		for conn, err := socket.Accept(); err == nil; conn, err = socket.Accept() {
			_, _ = io.WriteString(conn, `{"error":"year outside of range"}`+"\n")
			_ = conn.Close()
		}
	}()
	r := c.expectFindings(c.holder(), []string{"service-report-unreadable"}, "--status-socket", path)
	c.expectText(r, "service-report-unreadable", "does not say how it is: ", "year outside of range")
	if p := r.Check("port"); p.Outcome != "skipped" {
		t.Errorf("%+v", p)
	}
}

// freeze stops a service as a debugger does until the test ends.
func (c *cluster) freeze(s *lab.Service) {
	c.t.Helper()
	must(c.t, s.Signal(unix.SIGSTOP))
	c.onCleanup(func(context.Context) error { return s.Signal(unix.SIGCONT) })
}

// TestServiceNotReady: what the service complains about, and nothing else is seen
// of, is a finding. Here it has another configuration than check.
func TestServiceNotReady(t *testing.T) {
	c := healthy(t, nil)
	n := c.holder()
	c.configure(n.DefaultConfig()+"mode: \"\"\n", "Disabled")
	other := filepath.Join(t.TempDir(), "config.yaml")
	must(t, os.WriteFile(other, []byte(n.DefaultConfig()), 0o600))
	r := c.expectFindings(n, []string{"service-unwell"}, "--config", other)
	c.expectText(r, "service-unwell", "the service runs and is not ready: Disabled: ")
}

// TestServiceRestartsProxy has the process that answers the clients end again and again.
func TestServiceRestartsProxy(t *testing.T) {
	c := healthy(t, nil)
	must(t, eventually(t, func() error {
		if err := c.Services[0].KillChildren(); err != nil {
			return err
		}
		seen, err := c.Services[0].Status(t.Context())
		if err == nil && seen.Condition().Reason != "ProxyUnavailable" {
			err = errors.New(seen.Condition().Reason)
		}
		return err
	}))
	r := c.expectFindings(c.holder(), []string{"service-unwell"})
	c.expectText(r, "service-unwell", "ProxyUnavailable")
}

// TestEgressProxy: names are those of the configuration.
func TestEgressProxy(t *testing.T) {
	c := healthy(t, nil)
	n := c.holder()
	for _, tt := range []struct {
		name, text string
		ids        []string
	}{
		{"not covered", "HTTP_PROXY=http://user:secret@proxy.lab.test:3128\nHTTPS_PROXY=http://proxy.lab.test:3128\nNO_PROXY=.cluster.local,.svc,192.0.2.0/24\n", []string{"egress-proxy-takes-api"}},
		{"covered by its domain", "HTTP_PROXY=http://proxy.lab.test:3128\nNO_PROXY=\".cluster.local,.lab.test\"\n", []string{}},
		{"covered by name", "HTTP_PROXY=http://proxy.lab.test:3128\nNO_PROXY=api.lab.test\n", []string{}},
		{"https alone", "HTTPS_PROXY=http://proxy.lab.test:3128\n", []string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			must(t, os.WriteFile(n.ProxyEnv(), []byte(tt.text), 0o600))
			defer os.Remove(n.ProxyEnv())
			r := c.expectFindings(n, tt.ids, "--name", "api.lab.test")
			if len(tt.ids) > 0 && tt.ids[0] == "egress-proxy-takes-api" {
				c.expectText(r, tt.ids[0], "http://api.lab.test", "http://xxxxx@proxy.lab.test:3128", n.ProxyEnv())
			}
		})
	}
	t.Run("a directory", func(t *testing.T) {
		c.expectFindings(n, []string{"egress-proxy-unreadable"}, "--name", "api.lab.test", "--proxy-env", t.TempDir())
	})
}
