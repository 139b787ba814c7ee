// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"

	"golang.org/x/sys/unix"
)

//go:embed haproxy.cfg.tmpl
var haproxyTemplate string

//go:embed error-page-503.http
var errorPage []byte

// Worker is the node with the ingress VIPs, keepalived and the router. In a compact lab
// each control-plane node is one, with its own keepalived.
type Worker struct {
	*Node
	keepalived

	reloads  sync.Mutex // held during a reload
	router   *Process   // the current process of the router; nil: the router does not run
	draining []*Process // previous ones, which may still serve connections
	// log is open once for all processes: haproxy sets O_NONBLOCK alone (fcntl, F_SETFL), which ends O_APPEND.
	log *os.File

	mu      sync.Mutex
	options RouterOptions
	routes  []*Route
	changed bool // since the last reload began
	solvers int
}

// Route is one path of one host that the router serves or redirects.
type Route struct {
	worker  *Worker
	server  netip.AddrPort // the zero value: none
	entries []mapEntry
}

// mapEntry is one line of a map of the router.
type mapEntry struct{ file, pattern, value string }

// The router's maps. OpenShift's router has the first two.
const (
	routeMap           = "os_http_be.map"
	redirectMap        = "os_route_http_redirect.map"
	elsewhereMap       = "elsewhere.map"
	secureElsewhereMap = "elsewhere-secure.map"
)

func (w *Worker) file(name string) string { return filepath.Join(w.Dir, name) }

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

	// Program is the command of another HAProxy than the system's.
	Program []string
	// SmallHeads makes the router reject request heads over 4 KiB, instead of 8.
	SmallHeads bool

	// DeferIdleTermination is idleConnectionTerminationPolicy: Deferred of an IngressController.
	DeferIdleTermination bool

	// Addresses and Port are MicroShift's ingress.listenAddress and ingress.ports.http:
	// every address and port 80 when zero.
	Addresses []netip.Addr
	Port      int
}

// StartRouter starts the router without routes.
func (w *Worker) StartRouter(ctx context.Context, o RouterOptions) error {
	w.mu.Lock()
	w.options, w.routes, w.changed = o, nil, true
	w.mu.Unlock()
	return w.reload(ctx, true)
}

// errNoRouter reports a change of the routes while the router does not run.
var errNoRouter = errors.New("the router does not run")

// reload starts a process of the router with the current routes, as OpenShift's reload-haproxy does:
// it takes over the listening sockets, and the previous process only ends its connections. A reload
// that begins later includes all changes before, so that few of many changes need one.
func (w *Worker) reload(ctx context.Context, starts bool) error {
	w.reloads.Lock()
	defer w.reloads.Unlock()
	if w.router == nil && !starts {
		return errNoRouter
	}
	changed, err := w.writeRouterFiles()
	if !changed || err != nil {
		return err
	}
	args := []string{"-db", "-f", w.file("haproxy.cfg")}
	previous := w.router
	if previous != nil {
		args = append(args, "-x", w.file("haproxy.sock"), "-sf", strconv.Itoa(previous.PID()))
	}
	if w.log == nil {
		if w.log, err = os.OpenFile(w.file("haproxy.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
			return fmt.Errorf("open the router's log: %w", err)
		}
	}
	program := w.program()
	next, err := w.Start(Command{Name: "haproxy", Path: program[0], Args: append(program[1:], args...), Output: w.log})
	if err != nil {
		return err
	}
	w.router = next
	w.dropEndedProcesses()
	if previous != nil {
		w.draining = append(w.draining, previous)
	}
	return Eventually(ctx, "the router", func(context.Context) error {
		switch {
		case next.Alive() != nil:
			return next.Alive()
		case !next.listens():
			return fmt.Errorf("process %d does not listen", next.PID())
		case previous != nil && previous.listens():
			return fmt.Errorf("process %d still listens", previous.PID())
		default:
			return nil
		}
	})
}

// program returns the command of HAProxy.
func (w *Worker) program() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.options.Program) > 0 {
		return slices.Clone(w.options.Program)
	}
	return []string{"haproxy"}
}

// listens reports whether the process has a listening TCP socket.
func (p *Process) listens() bool {
	dir := fmt.Sprintf("/proc/%d/", p.PID())
	sockets := map[string]bool{}
	for _, table := range []string{"net/tcp", "net/tcp6"} {
		text, _ := os.ReadFile(dir + table) // the process may have ended
		for line := range strings.Lines(string(text)) {
			const state, listen, inode = 3, "0A", 9 // net/ipv4/tcp_ipv4.c, get_tcp4_sock
			if fields := strings.Fields(line); len(fields) > inode && fields[state] == listen {
				sockets["socket:["+fields[inode]+"]"] = true
			}
		}
	}
	descriptors, _ := os.ReadDir(dir + "fd")
	return slices.ContainsFunc(descriptors, func(d os.DirEntry) bool {
		target, _ := os.Readlink(dir + "fd/" + d.Name())
		return sockets[target]
	})
}

func (w *Worker) dropEndedProcesses() {
	w.draining = slices.DeleteFunc(w.draining, func(p *Process) bool {
		select {
		case <-p.Exited():
			p.drop()
			return true
		default:
			return false
		}
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

// writeRouterFiles writes the router's files for the current routes. It reports false if they did
// not change.
func (w *Worker) writeRouterFiles() (changed bool, err error) {
	w.mu.Lock()
	o, routes := w.options, slices.Clone(w.routes)
	changed, w.changed = w.changed, false
	w.mu.Unlock()
	if !changed {
		return false, nil
	}
	tmpl, err := template.New("haproxy.cfg").Parse(haproxyTemplate)
	if err != nil {
		return false, fmt.Errorf("parse the router's template: %w", err)
	}
	certificates, err := w.writeIdentities(o.Secure, o.Named)
	if err != nil {
		return false, err
	}
	files := map[string][]byte{
		routeMap: nil, redirectMap: nil, elsewhereMap: nil, secureElsewhereMap: nil,
		"error-page-503.http": bytes.ReplaceAll(errorPage, []byte("\n"), []byte("\r\n")),
	}
	backends := map[string]netip.AddrPort{}
	for i, r := range routes {
		name := fmt.Sprintf("be_http:%d", i)
		for _, e := range r.entries {
			files[e.file] = fmt.Appendf(files[e.file], "%s %s\n", e.pattern, cmp.Or(e.value, name))
		}
		if r.server.IsValid() {
			backends[name] = r.server
		}
	}
	var cfg bytes.Buffer
	err = tmpl.Execute(&cfg, map[string]any{
		"Socket": w.file("haproxy.sock"), "ErrorPage": w.file("error-page-503.http"),
		"Routes": w.file(routeMap), "Redirects": w.file(redirectMap),
		"Elsewhere": w.file(elsewhereMap), "SecureElsewhere": w.file(secureElsewhereMap),
		"Binds": o.binds(), "Backends": backends, "ProxyProtocol": o.ProxyProtocol, "Secure": o.Secure != nil,
		"Certificates": certificates, "DeferIdleTermination": o.DeferIdleTermination,
		"SmallHeads": o.SmallHeads,
	})
	if err != nil {
		return false, fmt.Errorf("render the router's configuration: %w", err)
	}
	files["haproxy.cfg"] = cfg.Bytes()
	for name, text := range files {
		if err := os.WriteFile(w.file(name), text, 0o600); err != nil {
			return false, fmt.Errorf("write %s: %w", name, err)
		}
	}
	return true, nil
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
	w.reloads.Lock()
	defer w.reloads.Unlock()
	var errs []error
	for _, p := range append(w.draining, w.router) {
		if p != nil {
			errs = append(errs, p.Kill(ctx))
		}
	}
	w.router, w.draining = nil, nil
	w.mu.Lock()
	defer w.mu.Unlock()
	w.routes = nil
	return errors.Join(errs...)
}

// FreezeRouter sends SIGSTOP to the router: the kernel accepts connections, and nothing
// answers.
func (w *Worker) FreezeRouter() error { return w.signalRouter(unix.SIGSTOP) }

// ThawRouter sends SIGCONT to the router.
func (w *Worker) ThawRouter() error { return w.signalRouter(unix.SIGCONT) }

func (w *Worker) signalRouter(s unix.Signal) error {
	w.reloads.Lock()
	defer w.reloads.Unlock()
	if w.router == nil {
		return errNoRouter
	}
	return w.router.Signal(s)
}

// AddRoute routes a path of a host, and all below it, to a port of the worker.
func (w *Worker) AddRoute(ctx context.Context, host, path string, port int) (*Route, error) {
	return w.AddRouteTo(ctx, host, path, netip.MustParseAddr("127.0.0.1"), port)
}

// AddRouteTo is AddRoute to another address.
func (w *Worker) AddRouteTo(ctx context.Context, host, path string, to netip.Addr, port int) (*Route, error) {
	return w.add(ctx, netip.AddrPortFrom(to, uint16(port)), //nolint:gosec // a port
		mapEntry{routeMap, routePattern(host, path), ""})
}

// RedirectToHTTPS makes the router answer a host with a 302 redirect to https, like a route
// with insecureEdgeTerminationPolicy Redirect. The returned function ends it.
func (w *Worker) RedirectToHTTPS(ctx context.Context, host string) (func(context.Context) error, error) {
	r, err := w.add(ctx, netip.AddrPort{}, mapEntry{redirectMap, routePattern(host, ""), "1"})
	return r.Remove, err
}

// RedirectElsewhere makes the router answer every path of a host with a 302 redirect to one
// location, over http and, with secure, over https. The returned function ends it.
func (w *Worker) RedirectElsewhere(ctx context.Context, host, location string,
	secure bool,
) (func(context.Context) error, error) {
	pattern := routePattern(host, "")
	entries := []mapEntry{{elsewhereMap, pattern, location}}
	if secure {
		entries = append(entries, mapEntry{secureElsewhereMap, pattern, location})
	}
	r, err := w.add(ctx, netip.AddrPort{}, entries...)
	return r.Remove, err
}

func (w *Worker) add(ctx context.Context, server netip.AddrPort, entries ...mapEntry) (*Route, error) {
	r := &Route{w, server, entries}
	w.change(func() { w.routes = append(w.routes, r) })
	return r, w.reload(ctx, false)
}

// Remove removes the route.
func (r *Route) Remove(ctx context.Context) error {
	w := r.worker
	w.change(func() { w.routes = slices.DeleteFunc(w.routes, func(other *Route) bool { return other == r }) })
	return w.reload(ctx, false)
}

func (w *Worker) change(routes func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	routes()
	w.changed = true
}

// RouterLog returns the router's log with a line for each request. The first word is the
// client's address and the last the destination.
func (w *Worker) RouterLog() (string, error) {
	text, err := os.ReadFile(w.file("haproxy.log"))
	if err != nil {
		return "", fmt.Errorf("read the router's log: %w", err)
	}
	return string(text), nil
}

// routePattern returns the key of a route in the router's maps as OpenShift's template
// writes it.
func routePattern(host, path string) string {
	return "^" + regexp.QuoteMeta(host) + `\.?(:[0-9]+)?` + regexp.QuoteMeta(path) + "(/.*)?$"
}
