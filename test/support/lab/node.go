// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// dialTimeout limits every connection attempt of the lab's own clients.
const dialTimeout = 10 * time.Second

// Node is one host of the lab: a network namespace and a directory.
type Node struct {
	Name      string // name in the topology, such as master0
	Namespace string // name for `ip netns`
	Addresses Pair   // own addresses without VIPs
	Dir       string // directory of files and logs

	lab    *Lab
	thread *thread

	mu        sync.Mutex
	processes []*Process
}

// newNode returns the node with an error too. The caller must close it.
func newNode(ctx context.Context, l *Lab, name string, own Pair) (*Node, error) {
	n := &Node{
		Name:      name,
		Namespace: l.namespace(name),
		Addresses: own,
		Dir:       filepath.Join(l.Dir, name),
		lab:       l,
	}
	if err := os.Mkdir(n.Dir, 0o750); err != nil {
		return n, fmt.Errorf("create the directory of %s: %w", name, err)
	}
	if err := addNamespace(ctx, n.Namespace); err != nil {
		return n, err
	}
	var err error
	n.thread, err = newThread(n.Namespace)
	return n, err
}

// writeFile writes a file of a node and creates its directory.
func writeFile(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return fmt.Errorf("make the directory of a file: %w", err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("write a file of a node: %w", err)
	}
	return nil
}

// Run runs a command in the node's namespace and returns its output. The error includes its
// standard error.
func (n *Node) Run(ctx context.Context, name string, args ...string) (string, error) {
	return n.Input(ctx, "", name, args...)
}

// Input is Run with text on the command's standard input.
func (n *Node) Input(ctx context.Context, stdin, name string, args ...string) (string, error) {
	out, err := runFrom(ctx, n.thread.do, nil, stdin, name, args...)
	if err != nil {
		return out, fmt.Errorf("on %s: %w", n.Name, err)
	}
	return out, nil
}

// Dial connects from the node to a literal address and port.
func (n *Node) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	// With a literal, the single attempt stays in this goroutine and thread. For a name,
	// net dials both families concurrently.
	if _, err := netip.ParseAddrPort(address); err != nil {
		return nil, fmt.Errorf("dial from %s: %w", n.Name, err)
	}
	var conn net.Conn
	err := n.InNamespace(func() error {
		var err error
		conn, err = (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("from %s: %w", n.Name, err)
	}
	return conn, nil
}

// Listen opens a TCP listener of this process in the node's namespace.
func (n *Node) Listen(ctx context.Context, address string) (net.Listener, error) {
	var listener net.Listener
	err := n.InNamespace(func() error {
		var err error
		listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("on %s: %w", n.Name, err)
	}
	return listener, nil
}

// String returns the node's name.
func (n *Node) String() string { return n.Name }

// Holds reports whether an address is on one of the node's links.
func (n *Node) Holds(ctx context.Context, a netip.Addr) (bool, error) {
	out, err := n.Run(ctx, "ip", "-o", "address", "show", "to", a.String())
	return strings.TrimSpace(out) != "", err
}

// sysctl enables forwarding on the gateway, and on the control-plane nodes for
// their pods. It runs before links exist, which inherit the defaults.
func (n *Node) sysctl() error {
	settings := map[string]string{
		"ipv4/conf/all/send_redirects":     "0",
		"ipv4/conf/default/send_redirects": "0",
	}
	if n.Name == nameGateway || strings.HasPrefix(n.Name, "master") {
		settings["ipv4/ip_forward"] = "1"
		settings["ipv6/conf/all/forwarding"] = "1"
		settings["ipv6/conf/default/forwarding"] = "1"
	}
	return n.writeSysctls(settings)
}

// writeSysctls writes settings below /proc/sys/net of the node.
func (n *Node) writeSysctls(settings map[string]string) error {
	return n.thread.do(func() error {
		for key, value := range settings {
			if err := os.WriteFile(filepath.Join("/proc/sys/net", key), []byte(value), 0o600); err != nil {
				return fmt.Errorf("set sysctl on %s: %w", n.Name, err)
			}
		}
		return nil
	})
}

// close ends every process in the namespace and the thread that started them.
func (n *Node) close(ctx context.Context) error {
	err := killAll(ctx, n.Namespace)
	n.mu.Lock()
	processes := n.processes
	n.mu.Unlock()
	for _, p := range processes {
		err = errors.Join(err, p.reap(ctx))
	}
	if n.thread != nil {
		n.thread.close()
	}
	return err
}
