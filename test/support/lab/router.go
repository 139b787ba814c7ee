// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"text/template"

	"golang.org/x/sys/unix"
)

//go:embed haproxy.cfg.tmpl
var haproxyTemplate string

//go:embed error-page-503.http
var errorPage []byte

// routerSlots is the maximum number of routes. cert-manager solves up to 60 challenges at
// once (--max-concurrent-challenges).
const routerSlots = 64

// Worker is the node with the ingress VIPs, keepalived and the router. In a compact lab
// each control-plane node is one, with its own keepalived.
type Worker struct {
	*Node
	keepalived

	router  *Process
	mu      sync.Mutex
	slots   [routerSlots]bool
	solvers int
}

// Route is one path of one host that the router serves.
type Route struct {
	worker  *Worker
	slot    int
	pattern string
}

func (w *Worker) file(name string) string { return filepath.Join(w.Dir, name) }

func slotName(i int) string { return fmt.Sprintf("be_http:slot:%02d", i) }

func (w *Worker) up(ctx context.Context) error {
	// A control-plane node runs its own keepalived.
	if len(w.instances) > 0 && !w.lab.layout.NoVIPs {
		if err := w.StartKeepalived(ctx); err != nil {
			return err
		}
	}
	return w.StartRouter(ctx, RouterOptions{})
}

// RouterOptions configures the router.
type RouterOptions struct {
	ProxyProtocol bool      // hostNetwork.protocol: PROXY of an IngressController
	Secure        *Identity // certificate for every name on port 443; nil for no listener
	Named         *Identity // certificate for the names that it covers; may be nil

	// Addresses and Port are MicroShift's ingress.listenAddress and ingress.ports.http:
	// every address and port 80 when zero.
	Addresses []netip.Addr
	Port      int
}

// StartRouter starts the router without routes.
func (w *Worker) StartRouter(ctx context.Context, o RouterOptions) error {
	if err := w.writeRouterFiles(o); err != nil {
		return err
	}
	p, err := w.Start(Command{Name: "haproxy", Path: "haproxy", Args: []string{"-db", "-f", w.file("haproxy.cfg")}})
	if err != nil {
		return err
	}
	w.router = p
	return Eventually(ctx, "the router", func(ctx context.Context) error {
		if err := p.Alive(); err != nil {
			return err
		}
		return w.runtime(ctx, "show info")
	})
}

// binds returns HAProxy's bind addresses for plain HTTP.
func (o RouterOptions) binds() []string {
	port := cmp.Or(o.Port, 80)
	if len(o.Addresses) == 0 {
		return []string{fmt.Sprintf(":%d", port), fmt.Sprintf(":::%d v6only", port)}
	}
	var out []string
	for _, a := range o.Addresses {
		out = append(out, netip.AddrPortFrom(a, uint16(port)).String()) //nolint:gosec // a port
	}
	return out
}

func (w *Worker) writeRouterFiles(o RouterOptions) error {
	tmpl, err := template.New("haproxy.cfg").Parse(haproxyTemplate)
	if err != nil {
		return fmt.Errorf("parse the router's template: %w", err)
	}
	var slots []string
	for i := range routerSlots {
		slots = append(slots, slotName(i))
	}
	certificates, err := w.writeIdentities(o.Secure, o.Named)
	if err != nil {
		return err
	}
	var cfg bytes.Buffer
	err = tmpl.Execute(&cfg, map[string]any{
		"Socket": w.file("haproxy.sock"), "ErrorPage": w.file("error-page-503.http"),
		"Routes": w.file("os_http_be.map"), "Redirects": w.file("os_route_http_redirect.map"),
		"Elsewhere": w.file("elsewhere.map"), "SecureElsewhere": w.file("elsewhere-secure.map"),
		"Binds": o.binds(), "Slots": slots, "ProxyProtocol": o.ProxyProtocol, "Secure": o.Secure != nil,
		"Certificates": certificates,
	})
	if err != nil {
		return fmt.Errorf("render the router's configuration: %w", err)
	}
	for name, text := range map[string][]byte{
		"haproxy.cfg": cfg.Bytes(), "os_http_be.map": nil, "os_route_http_redirect.map": nil,
		"elsewhere.map": nil, "elsewhere-secure.map": nil,
		"error-page-503.http": bytes.ReplaceAll(errorPage, []byte("\n"), []byte("\r\n")),
	} {
		if err := os.WriteFile(w.file(name), text, 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// writeIdentities writes the router's certificates, the first for every name, and returns
// the paths.
func (w *Worker) writeIdentities(all ...*Identity) ([]string, error) {
	var paths []string
	for i, identity := range all {
		if identity == nil {
			continue
		}
		path := w.file(fmt.Sprintf("router-%d.pem", i))
		if err := os.WriteFile(path, identity.PEM(), 0o600); err != nil {
			return nil, fmt.Errorf("write the router's certificate: %w", err)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// StopRouter stops the router and removes its routes.
func (w *Worker) StopRouter(ctx context.Context) error {
	if err := w.router.Kill(ctx); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slots = [routerSlots]bool{}
	return nil
}

// FreezeRouter sends SIGSTOP to the router: the kernel accepts connections, and nothing
// answers.
func (w *Worker) FreezeRouter() error { return w.router.Signal(unix.SIGSTOP) }

// ThawRouter sends SIGCONT to the router.
func (w *Worker) ThawRouter() error { return w.router.Signal(unix.SIGCONT) }

// AddRoute routes a path of a host, and all below it, to a port of the worker.
func (w *Worker) AddRoute(ctx context.Context, host, path string, port int) (*Route, error) {
	return w.AddRouteTo(ctx, host, path, netip.MustParseAddr("127.0.0.1"), port)
}

// AddRouteTo is AddRoute to another address.
func (w *Worker) AddRouteTo(ctx context.Context, host, path string, to netip.Addr, port int) (*Route, error) {
	slot, err := w.takeSlot()
	if err != nil {
		return nil, err
	}
	r := &Route{worker: w, slot: slot, pattern: routePattern(host, path)}
	backend := slotName(slot)
	for _, command := range []string{
		fmt.Sprintf("set server %s/pod addr %s port %d", backend, to, port),
		fmt.Sprintf("set server %s/pod state ready", backend),
		fmt.Sprintf("add map %s %s %s", w.file("os_http_be.map"), r.pattern, backend),
	} {
		if err := w.runtime(ctx, command); err != nil {
			return nil, errors.Join(err, r.Remove(ctx))
		}
	}
	return r, nil
}

// Remove removes the route.
func (r *Route) Remove(ctx context.Context) error {
	w := r.worker
	mapErr := w.runtime(ctx, fmt.Sprintf("del map %s %s", w.file("os_http_be.map"), r.pattern))
	serverErr := w.runtime(ctx, fmt.Sprintf("set server %s/pod state maint", slotName(r.slot)))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slots[r.slot] = false
	return errors.Join(mapErr, serverErr)
}

// RedirectToHTTPS makes the router answer a host with a 302 redirect to https, like a route
// with insecureEdgeTerminationPolicy Redirect. The returned function ends it.
func (w *Worker) RedirectToHTTPS(ctx context.Context, host string) (func(context.Context) error, error) {
	pattern := routePattern(host, "")
	redirects := w.file("os_route_http_redirect.map")
	if err := w.runtime(ctx, fmt.Sprintf("add map %s %s 1", redirects, pattern)); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		return w.runtime(ctx, fmt.Sprintf("del map %s %s", redirects, pattern))
	}, nil
}

// RedirectElsewhere makes the router answer every path of a host with a 302 redirect to one
// location, over http and, with secure, over https. The returned function ends it.
func (w *Worker) RedirectElsewhere(ctx context.Context, host, location string,
	secure bool,
) (func(context.Context) error, error) {
	pattern := routePattern(host, "")
	files := []string{w.file("elsewhere.map")}
	if secure {
		files = append(files, w.file("elsewhere-secure.map"))
	}
	end := func(ctx context.Context) error {
		var errs []error
		for _, file := range files {
			errs = append(errs, w.runtime(ctx, fmt.Sprintf("del map %s %s", file, pattern)))
		}
		return errors.Join(errs...)
	}
	for _, file := range files {
		if err := w.runtime(ctx, fmt.Sprintf("add map %s %s %s", file, pattern, location)); err != nil {
			return nil, err
		}
	}
	return end, nil
}

// RouterLog returns the router's log with a line for each request. The first word is the
// client's address and the last the destination.
func (w *Worker) RouterLog() (string, error) {
	text, err := os.ReadFile(w.router.Log)
	if err != nil {
		return "", fmt.Errorf("read the router's log: %w", err)
	}
	return string(text), nil
}

func (w *Worker) takeSlot() (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, taken := range w.slots {
		if !taken {
			w.slots[i] = true
			return i, nil
		}
	}
	return 0, fmt.Errorf("all %d routes of the router are in use", routerSlots)
}

// routePattern returns the key of a route in the router's map as OpenShift's template
// writes it, except for the dots: a backslash is an escape in the runtime API.
func routePattern(host, path string) string {
	quote := func(s string) string { return strings.ReplaceAll(s, ".", "[.]") }
	return "^" + quote(host) + "[.]?(:[0-9]+)?" + quote(path) + "(/.*)?$"
}

// runtime sends a command to HAProxy's runtime API. The API reports errors as plain text,
// so any output of a silent command is an error.
func (w *Worker) runtime(ctx context.Context, command string) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", w.file("haproxy.sock"))
	if err != nil {
		return fmt.Errorf("connect to the router's runtime API: %w", err)
	}
	defer func() { _ = conn.Close() }()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return fmt.Errorf("set the deadline of the router's runtime API: %w", err)
	}
	if _, err := io.WriteString(conn, command+"\n"); err != nil {
		return fmt.Errorf("send %q to the router: %w", command, err)
	}
	answer, err := io.ReadAll(io.LimitReader(conn, 1<<20))
	if err != nil {
		return fmt.Errorf("send %q to the router: %w", command, err)
	}
	text := strings.TrimSpace(string(answer))
	if !strings.HasPrefix(command, "show ") && text != "" && !strings.Contains(text, "changed from") &&
		!strings.Contains(text, "no need to change") {
		return fmt.Errorf("send %q to the router: %s", command, text)
	}
	return nil
}
