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

// eventually calls try until it succeeds.
func eventually(t *testing.T, try func() error) error {
	t.Helper()
	return lab.Eventually(t.Context(), t.Name(), func(context.Context) error { return try() })
}

// exitCode returns the exit code of a command, 0 for success.
func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// TestPortTaken holds that the service reports the process that uses its port and installs
// no table. check reports the same. The service serves once the port is free.
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
	if p := seen.Condition(); p.Status != "False" || !strings.Contains(p.Message, "8888") || !strings.Contains(p.Message,
		strconv.Itoa(os.Getpid())) || seen.Table.Present {
		t.Errorf("%+v with the table %+v", p, seen.Table)
	}
	r := c.expectFindings(n, []string{"port-in-use"})
	c.expectText(r, "port-in-use", "Port 8888", "("+strings.TrimSpace(string(self))+")", "internalPort")
	must(t, listener.Close())
	c.awaitReason(s, "Serving")
}

// TestPortTakenByProcess holds that the commands of the finding end the process that uses the port.
func TestPortTakenByProcess(t *testing.T) {
	c := healthy(t, nil)
	n := c.holder()
	c.stop(c.Services[0])
	listener, err := n.Listen(t.Context(), ":8888")
	must(t, err)
	file, err := listener.(*net.TCPListener).File()
	must(t, err)
	user := lab.Command{Name: "user-of-the-port", Path: "/bin/sleep", Args: []string{"1h"}, Files: []*os.File{file}}
	p, err := n.Start(user)
	must(t, err)
	must(t, errors.Join(listener.Close(), file.Close()))
	s, err := n.StartService(t.Context(), lab.ServiceOptions{Binary: shared.binary})
	must(t, err)
	t.Cleanup(func() { c.stop(s) })
	c.awaitReason(s, "PortInUse")
	r := c.expectFindings(n, []string{"port-in-use"})
	must(t, n.RunCommands(t.Context(), r.Commands("port-in-use")))
	<-p.Exited()
	c.awaitReason(s, "Serving")
	c.expectFindings(n, []string{})
}

// TestServiceDown holds that check reports that the service is down, and a port that another
// process uses meanwhile.
func TestServiceDown(t *testing.T) {
	c := healthy(t, nil)
	c.stop(c.Services[0])
	c.expectFindings(c.holder(), []string{"service-not-running"})
	listener, err := c.holder().Listen(t.Context(), ":8888")
	must(t, err)
	defer listener.Close()
	c.expectFindings(c.holder(), []string{"port-in-use", "service-not-running"})
}

// TestMetricsPortTaken holds that challenges are answered when another process uses the
// metrics port.
func TestMetricsPortTaken(t *testing.T) {
	c := healthy(t, nil)
	n := c.holder()
	listener, err := n.Listen(t.Context(), ":9645")
	must(t, err)
	c.configure(n.DefaultConfig()+"metrics: {listenAddress: \":9645\"}\n", "Serving")
	self, err := os.ReadFile("/proc/self/comm")
	must(t, err)
	r := c.expectFindings(n, []string{"metrics-port-in-use"})
	c.expectText(r, "metrics-port-in-use", "not served on [::]:9645", "("+strings.TrimSpace(string(self))+")",
		"metrics.listenAddress")
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

// TestServiceUnresponsive stops the controller with SIGSTOP. The proxy process continues to answer
// clients.
func TestServiceUnresponsive(t *testing.T) {
	c := healthy(t, nil)
	c.freeze(c.Services[0])
	r := c.expectFindings(c.holder(), []string{"service-unresponsive"})
	c.expectText(r, "service-unresponsive", "The service runs but does not respond: ", "timeout")
}

// TestServiceReportUnreadable makes the status socket answer with something other than a
// report. The service runs, so check does not advise to stop the process on its port.
func TestServiceReportUnreadable(t *testing.T) {
	c := healthy(t, nil)
	path := filepath.Join(t.TempDir(), "status.sock")
	socket, err := net.Listen("unix", path)
	must(t, err)
	defer socket.Close()
	go func() {
		for conn, err := socket.Accept(); err == nil; conn, err = socket.Accept() {
			_, _ = io.WriteString(conn, `{"vips":1}`+"\n")
			_ = conn.Close()
		}
	}()
	r := c.expectFindings(c.holder(), []string{"service-report-unreadable"}, "--status-socket", path)
	c.expectText(r, "service-report-unreadable", "its status report is not readable: ", "cannot unmarshal number")
	if p := r.Check("port"); p.Outcome != "ok" {
		t.Errorf("%+v", p)
	}
}

// freeze stops a service with SIGSTOP until the test ends.
func (c *cluster) freeze(s *lab.Service) {
	c.t.Helper()
	must(c.t, s.Signal(unix.SIGSTOP))
	c.onCleanup(func(context.Context) error { return s.Signal(unix.SIGCONT) })
}

// TestServiceNotReady holds that check reports a condition of the service for which it
// finds no other cause. Here the service uses another configuration than check.
func TestServiceNotReady(t *testing.T) {
	c := healthy(t, nil)
	n := c.holder()
	c.configure(n.DefaultConfig()+"mode: \"\"\n", "Disabled")
	other := filepath.Join(t.TempDir(), "config.yaml")
	must(t, os.WriteFile(other, []byte(n.DefaultConfig()), 0o600))
	r := c.expectFindings(n, []string{"service-not-ready"}, "--config", other)
	c.expectText(r, "service-not-ready", "The service runs but is not ready: Disabled: ")
}

// TestServiceRestartsProxy kills the proxy process repeatedly.
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
	r := c.expectFindings(c.holder(), []string{"service-not-ready"})
	c.expectText(r, "service-not-ready", "ProxyUnavailable")
}

// TestEgressProxy matches the names of the configuration against NO_PROXY.
func TestEgressProxy(t *testing.T) {
	c := healthy(t, nil)
	n := c.holder()
	for _, tt := range []struct {
		name, text string
		ids        []string
	}{
		{
			"not covered",
			"HTTP_PROXY=http://user:secret@proxy.lab.test:3128\nHTTPS_PROXY=http://proxy.lab.test:3128\nNO_PROXY=.cluster.local,.svc,192.0.2.0/24\n",
			[]string{"no-proxy-lacks-api"},
		},
		{
			"covered by its domain", "HTTP_PROXY=http://proxy.lab.test:3128\nNO_PROXY=\".cluster.local,.lab.test\"\n",
			[]string{},
		},
		{"covered by name", "HTTP_PROXY=http://proxy.lab.test:3128\nNO_PROXY=api.lab.test\n", []string{}},
		{"https alone", "HTTPS_PROXY=http://proxy.lab.test:3128\n", []string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			must(t, os.WriteFile(n.ProxyEnv(), []byte(tt.text), 0o600))
			defer os.Remove(n.ProxyEnv())
			r := c.expectFindings(n, tt.ids, "--name", "api.lab.test")
			if len(tt.ids) > 0 && tt.ids[0] == "no-proxy-lacks-api" {
				c.expectText(r, tt.ids[0], "http://api.lab.test", "http://xxxxx@proxy.lab.test:3128", n.ProxyEnv())
			}
		})
	}
	t.Run("a directory", func(t *testing.T) {
		c.expectFindings(n, []string{"proxy-file-invalid"}, "--name", "api.lab.test", "--proxy-env", t.TempDir())
	})
}
