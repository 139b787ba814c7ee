// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// faultCase is one fault in a healthy cluster.
type faultCase struct {
	name   string
	inject func(*cluster)           // puts the fault in until the test ends
	on     func(*cluster) *lab.Node // node for check; nil: a node without an API VIP
	flags  []string
	want   []string          // expected findings
	texts  map[string]string // expected parts of their texts
	fixed  bool              // the commands of the first finding end the fault
}

// runFaults puts each fault into one cluster in turn.
func (c *cluster) runFaults(t *testing.T, faults []faultCase) {
	t.Helper()
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			c := c.forSubtest(t)
			f.inject(c)
			on := c.standby()
			if f.on != nil {
				on = f.on(c)
			}
			r := c.expectFindings(on, f.want, f.flags...)
			for id, text := range f.texts {
				c.expectText(r, id, text)
			}
			if f.fixed {
				must(c.t, on.RunCommands(c.t.Context(), r.Commands(f.want[0])))
				c.expectFindings(on, []string{}, f.flags...)
			}
			for _, result := range r.Checks {
				for _, found := range result.Findings {
					t.Logf("%s\n    remediation: %s", found.Message, found.Remediation)
				}
			}
		})
	}
	// Every fault has been removed.
	c.forSubtest(t).expectFindings(c.standby(), []string{})
}

// forSubtest returns the cluster for a subtest.
func (c *cluster) forSubtest(t *testing.T) *cluster {
	t.Helper()
	sub := *c
	sub.t = t
	return &sub
}

func holder(c *cluster) *lab.Node { return c.holder() }

// standby returns a control-plane node without an API VIP.
func (c *cluster) standby() *lab.Node { return c.ControlPlane[2].Node }

// replaceRouter stops the router, starts a replacement, and restores the router when the
// test ends.
func (c *cluster) replaceRouter(start func()) {
	c.t.Helper()
	must(c.t, c.Worker.StopRouter(c.t.Context()))
	c.onCleanup(func(ctx context.Context) error {
		return errors.Join(c.Worker.StopRouter(ctx), c.Worker.StartRouter(ctx, lab.RouterOptions{}))
	})
	start()
}

// serveBytes answers every connection to port 80 of the worker with fixed bytes that no
// real HTTP server sends.
func (c *cluster) serveBytes(text string) {
	c.t.Helper()
	l, err := c.Worker.Listen(c.t.Context(), ":80")
	must(c.t, err)
	c.onCleanup(func(context.Context) error { return l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = conn.Write([]byte(text))
			_ = conn.Close()
		}
	}()
}

// onCleanup runs f when the test ends.
func (c *cluster) onCleanup(f func(context.Context) error) {
	c.t.Cleanup(func() {
		if err := f(context.Background()); err != nil {
			c.t.Error(err)
		}
	})
}

// loadFaultRules loads an nft table into a node until the test ends.
func (c *cluster) loadFaultRules(n *lab.Node, body string) {
	c.t.Helper()
	c.loadTable(n, "inet fault", "table inet fault {\n"+body+"\n}\n")
}

// loadTable loads the named nft table into a node until the test ends.
func (c *cluster) loadTable(n *lab.Node, table, text string) {
	c.t.Helper()
	_, err := n.Input(c.t.Context(), text, "nft", "-f", "-")
	must(c.t, err)
	c.onCleanup(func(ctx context.Context) error {
		_, err := n.Run(ctx, "nft", "delete table "+table)
		return err
	})
}

// run runs a command on a node, and another one when the test ends.
func (c *cluster) run(n *lab.Node, inject, heal string) {
	c.t.Helper()
	_, err := n.Run(c.t.Context(), "sh", "-c", inject)
	must(c.t, err)
	c.onCleanup(func(ctx context.Context) error {
		_, err := n.Run(ctx, "sh", "-c", heal)
		return err
	})
}

// publishName publishes other addresses of the API's name until the test ends.
func (c *cluster) publishName(addresses lab.Pair) {
	c.t.Helper()
	must(c.t, c.Internet.SetName(c.t.Context(), apiName, addresses))
	c.onCleanup(func(ctx context.Context) error { return c.Internet.SetName(ctx, apiName, c.API) })
}

// addRoute routes a path of the API's name to a port of the worker until the test ends.
func (c *cluster) addRoute(path string, port int) {
	c.t.Helper()
	r, err := c.Worker.AddRoute(c.t.Context(), apiName, path, port)
	must(c.t, err)
	c.onCleanup(r.Remove)
}

// startSolver runs cert-manager's solver for a token of the API's name until the test ends.
func (c *cluster) startSolver(token string) *lab.Solver {
	c.t.Helper()
	s, err := c.Solve(c.t.Context(), apiName, token, token+"."+thumbprint)
	must(c.t, err)
	c.onCleanup(s.Remove)
	return s
}

// webPort is the port of nginx on the worker.
const webPort = 8099

// startWebServer runs an nginx on the worker that returns one status, type and body until
// the test ends.
func (c *cluster) startWebServer(status int, kind, body string) {
	c.t.Helper()
	quoted := strings.NewReplacer("\n", `\n`, `"`, `\"`).Replace(body)
	c.startNginx(webPort, fmt.Sprintf("default_type %s; location / { return %d \"%s\"; }", kind, status, quoted))
}

// startNginx runs nginx on a port of the worker until the test ends.
func (c *cluster) startNginx(port int, server string) {
	c.t.Helper()
	dir := filepath.Join(c.Worker.Dir, "nginx")
	must(c.t, os.MkdirAll(dir, 0o755))
	conf := filepath.Join(dir, "nginx.conf")
	must(c.t, os.WriteFile(conf, fmt.Appendf(nil, `daemon off; master_process off; pid %[1]s/nginx.pid; error_log stderr;
events {}
http { access_log off; client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
server { listen %[2]d; listen [::]:%[2]d; %[3]s } }
`, dir, port, server), 0o600))
	p, err := c.Worker.Start(lab.Command{Name: "nginx", Path: "nginx", Args: []string{"-p", dir, "-c", conf}})
	must(c.t, err)
	c.onCleanup(p.Kill)
	must(c.t, lab.Eventually(c.t.Context(), "nginx", func(ctx context.Context) error {
		conn, err := c.Worker.Dial(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return err
		}
		return conn.Close()
	}))
}
