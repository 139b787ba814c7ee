// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// maxName is the maximum name length: a link name without "vb-" (IFNAMSIZ, linux/if.h).
const maxName = 12

// Options describes a host.
type Options struct {
	Name      string         // at most 12 letters, digits and hyphens
	Tree      string         // result of Tree
	Namespace string         // path of the bridge's network namespace; empty for the cell's own
	Bridge    string         // bridge that the host connects to, such as one of AddBridge
	Addresses []netip.Prefix // of its link host0; at least one, because the boot waits for the network
	Routers   []netip.Addr   // default routes, at most one per family
	DNS       []netip.Addr   // DNS servers of the host
}

// Link is the name of every host's network link on the host itself.
const Link = "host0"

// Host is one machine. It is off until Boot. Its disk persists over power-offs; its
// processes, links and rules do not. Run and similar methods may be called from several
// goroutines; those that switch the host on or off from one at a time.
type Host struct {
	Name string
	Root string // its disk as seen from the cell, without the host's mounts (/run, /tmp)

	cell    *Cell
	dir     string
	options Options
	hashes  hashes

	mu      sync.Mutex
	machine *machine // nil while the host is off
}

// String returns the host's name.
func (h *Host) String() string { return h.Name }

// NewHost creates a host with an empty overlay on the tree.
func (c *Cell) NewHost(o Options) (*Host, error) {
	if o.Name == "" || len(o.Name) > maxName {
		return nil, fmt.Errorf("host name %q: give 1 to %d characters", o.Name, maxName)
	}
	if len(o.Addresses) == 0 {
		return nil, fmt.Errorf("host %s: no address: the boot waits for the network", o.Name)
	}
	dir := c.Path(o.Name)
	h := &Host{
		Name: o.Name, Root: filepath.Join(dir, "root"), cell: c, dir: dir, options: o,
		hashes: hashes{known: map[version]string{}},
	}
	for _, d := range []string{dir, h.Root, filepath.Join(dir, "upper"), filepath.Join(dir, "work")} {
		if err := os.Mkdir(d, 0o755); err != nil { //nolint:gosec // upper is merged into the host's "/"
			return nil, fmt.Errorf("create the directories of %s: %w", h.Name, err)
		}
	}
	layers := fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", o.Tree, dir, dir)
	if err := unix.Mount("overlay", h.Root, "overlay", 0, layers); err != nil {
		return nil, fmt.Errorf("mount the disk of %s: %w", h.Name, err)
	}
	return h, h.writeIdentity()
}

// writeIdentity writes the host's identity. With a machine ID its first boot is like any
// other (machine-id(5), "First Boot Semantics").
func (h *Host) writeIdentity() error {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return fmt.Errorf("create a machine ID: %w", err)
	}
	var network strings.Builder
	network.WriteString("[Match]\nName=" + Link + "\n\n[Network]\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n")
	for _, r := range h.options.Routers {
		fmt.Fprintf(&network, "Gateway=%s\n", r)
	}
	for _, a := range h.options.Addresses {
		// The address is unique, so the boot skips duplicate address detection.
		fmt.Fprintf(&network, "\n[Address]\nAddress=%s\nDuplicateAddressDetection=none\n", a)
	}
	var resolver strings.Builder
	for _, s := range h.options.DNS {
		fmt.Fprintf(&resolver, "nameserver %s\n", s)
	}
	return errors.Join(
		h.WriteFile("/etc/machine-id", hex.EncodeToString(id)+"\n", 0o444),
		h.WriteFile("/etc/hostname", h.Name+"\n", 0o644),
		h.WriteFile("/etc/systemd/network/10-host0.network", network.String(), 0o644),
		h.WriteFile("/etc/resolv.conf", resolver.String(), 0o644),
	)
}

// Close powers off the host if necessary and unmounts its disk.
func (h *Host) Close(ctx context.Context) error {
	err := h.Kill(ctx)
	if e := unix.Unmount(h.Root, unix.MNT_DETACH); e != nil {
		err = errors.Join(err, fmt.Errorf("unmount the disk of %s: %w", h.Name, e))
	}
	return errors.Join(err, os.RemoveAll(h.dir))
}
