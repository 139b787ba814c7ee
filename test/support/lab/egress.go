// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // what basic_ncsa_auth compares with, in a file of the lab
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

//go:embed squid.conf.tmpl
var squidTemplate string

// egressPort is squid's default port.
const egressPort = 3128

// EgressName is the name of the egress proxy in the lab's DNS and in its certificate.
const EgressName = "egress.lab.test"

// Egress is the node of the egress proxy, a real squid. Only this node and the worker are
// on the outside network.
type Egress struct {
	*Node

	squid *Process
}

// EgressOptions configures the egress proxy. The zero value allows everything.
type EgressOptions struct {
	Hosts    map[string]Pair // names that it resolves before it queries the lab's DNS
	Secure   *Identity       // TLS to the proxy itself (https_port)
	User     string          // Basic authentication; none when empty
	Password string
	Bump     *Authority // signs intercepted TLS connections (ssl-bump)
	Trust    []byte     // PEM; trusted CAs of intercepted connections
	Deny     bool       // reject every request
}

func (e *Egress) file(name string) string { return filepath.Join(e.Dir, name) }

// accessLog contains a line for each completed request.
const accessLog = "access.log"

// Start starts the proxy. A running one is stopped first.
func (e *Egress) Start(ctx context.Context, o EgressOptions) error {
	if err := e.Stop(ctx); err != nil {
		return err
	}
	helpers, err := squidHelpers()
	if err != nil {
		return err
	}
	if err := e.writeFiles(ctx, o, helpers); err != nil {
		return err
	}
	p, err := e.Node.Start(Command{Name: "squid", Path: "squid", Args: []string{
		"-N", "-n", squidService(e.lab.ID), "-f",
		e.file("squid.conf"),
	}})
	if err != nil {
		return err
	}
	e.squid = p
	return Eventually(ctx, "squid", func(ctx context.Context) error {
		if err := p.Alive(); err != nil {
			return fmt.Errorf("%w\n%s", err, tail(e.file("cache.log"), 20))
		}
		conn, err := e.Dial(ctx, "tcp", e.At(e.Addresses.V6))
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// squidService returns the service name of a lab's squid, which must be alphanumeric. squid
// names its shared memory after it, and several labs share the machine.
func squidService(lab string) string { return strings.ReplaceAll(lab, "-", "") }

// removeSharedMemory removes the shared memory of a squid that SIGKILL ended.
func removeSharedMemory(lab string) error {
	paths, err := filepath.Glob("/dev/shm/" + squidService(lab) + "-*.shm")
	if err != nil {
		return fmt.Errorf("list the shared memory of squid: %w", err)
	}
	var errs []error
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove the shared memory of squid: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Stop stops the proxy. It returns no error when the proxy is not running.
func (e *Egress) Stop(ctx context.Context) error {
	if e.squid == nil {
		return nil
	}
	err := e.squid.Kill(ctx)
	e.squid.drop()
	e.squid = nil
	return err
}

// At returns the proxy's address and port on one of the node's addresses.
func (e *Egress) At(own netip.Addr) string { return netip.AddrPortFrom(own, egressPort).String() }

// URL returns the proxy's URL for HTTP_PROXY. user is an encoded USER:PASSWORD or empty.
func (e *Egress) URL(scheme, user, host string) string {
	if user != "" {
		user += "@"
	}
	return scheme + "://" + user + host + ":" + strconv.Itoa(egressPort)
}

// Requests returns the lines of the proxy's access log since its start.
func (e *Egress) Requests() ([]string, error) {
	text, err := os.ReadFile(e.file(accessLog))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read squid's access log: %w", err)
	}
	return strings.Split(strings.TrimRight(string(text), "\n"), "\n"), nil
}

func (e *Egress) writeFiles(ctx context.Context, o EgressOptions, helpers string) error {
	var config bytes.Buffer
	tmpl, err := template.New("squid.conf").Parse(squidTemplate)
	if err != nil {
		return fmt.Errorf("parse squid's template: %w", err)
	}
	err = tmpl.Execute(&config, map[string]any{
		"Dir": e.Dir, "Helpers": helpers, "Port": egressPort, "DNS": e.lab.Internet.Addresses.V4, "Name": EgressName,
		"Secure": o.Secure != nil, "User": o.User != "", "Bump": o.Bump != nil, "Deny": o.Deny,
	})
	if err != nil {
		return fmt.Errorf("render squid's configuration: %w", err)
	}
	files := map[string][]byte{
		"squid.conf": config.Bytes(), "hosts": hostsFile(o.Hosts), "trust.pem": o.Trust,
		accessLog: nil, "cache.log": nil,
		//nolint:gosec // as above
		"passwd": fmt.Appendf(nil, "%s:%x\n", o.User, md5.Sum([]byte(o.Password))),
	}
	if o.Secure != nil {
		files["secure.pem"] = o.Secure.PEM()
	}
	if o.Bump != nil {
		signer, err := o.Bump.Identity()
		if err != nil {
			return err
		}
		files["bump.pem"] = signer.PEM()
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := e.writeSquidFile(name, files[name]); err != nil {
			return err
		}
	}
	return e.certificateStore(ctx, o, helpers)
}

// writeSquidFile writes a file that squid can read and write after it dropped root.
func (e *Egress) writeSquidFile(name string, text []byte) error {
	if err := os.WriteFile(e.file(name), text, 0o666); err != nil { //nolint:gosec // a file of the lab; see above
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.Chmod(e.file(name), 0o666); err != nil { //nolint:gosec // the umask can reduce the mode above
		return fmt.Errorf("set the mode of %s for squid: %w", name, err)
	}
	return nil
}

// certificateStore creates the directory for certificates that squid signs, and opens the
// parent directories for squid's user.
func (e *Egress) certificateStore(ctx context.Context, o EgressOptions, helpers string) error {
	for _, dir := range []string{e.lab.Dir, e.Dir} {
		if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // only to pass through
			return fmt.Errorf("open the lab's directory for squid: %w", err)
		}
	}
	store := e.file("certificates")
	if err := os.RemoveAll(store); err != nil {
		return fmt.Errorf("remove the intercepting proxy's certificates: %w", err)
	}
	if o.Bump == nil {
		return nil
	}
	if _, err := e.Run(ctx, filepath.Join(helpers, "security_file_certgen"), "-c", "-s", store, "-M", "4MB"); err != nil {
		return fmt.Errorf("create the intercepting proxy's certificate store: %w", err)
	}
	return filepath.WalkDir(store, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chmod(path, 0o777) //nolint:gosec // as above
	})
}

func hostsFile(hosts map[string]Pair) []byte {
	var text bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		for _, a := range hosts[name].Both() {
			if a.IsValid() {
				fmt.Fprintf(&text, "%s %s\n", a, name)
			}
		}
	}
	return text.Bytes()
}

// squidHelpers returns the directory of squid's helper programs on Debian or Fedora.
func squidHelpers() (string, error) {
	for _, dir := range []string{"/usr/lib/squid", "/usr/lib64/squid"} {
		if _, err := os.Stat(filepath.Join(dir, "security_file_certgen")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("squid with OpenSSL is missing: run test/install-packages lab")
}
