// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/suites/chaos/model"
	"github.com/http01-proxyd/http01-proxyd/test/support/rig"
)

// host is a rig with the service, to which faults are injected.
type host struct {
	*rig.Rig
	*rig.Unit
	ingress *rig.Ingress
	clients *rig.Clients
	model   *model.Model
	taken   map[int]net.Listener
	rules   map[uint16][]string // of the service's table by port: what the real nft prints
	lost    []lossWindow
}

func newHost(ctx context.Context, binary string) (*host, error) {
	r, err := rig.New(ctx, binary)
	if err != nil {
		return nil, err
	}
	h := &host{Rig: r, taken: make(map[int]net.Listener), rules: make(map[uint16][]string)}
	if h.ingress, err = r.StartIngress(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	for _, port := range []uint16{model.DefaultPort, model.OtherPort} {
		t, err := r.LoadTable(ctx, tableText(port))
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		h.rules[port] = t.Rules
	}
	return h, nil
}

// tableText is the service's table of DESIGN.md, with empty sets.
func tableText(port uint16) string {
	redirects := fmt.Sprintf("ip daddr @api4 tcp dport 80 fib daddr type local counter dnat to :%[1]d\n\t\tip6 daddr @api6 tcp dport 80 fib daddr type local counter dnat to :%[1]d", port)
	return fmt.Sprintf(`table inet http01-proxyd {
	set api4 { type ipv4_addr; }
	set api6 { type ipv6_addr; }
	chain prerouting {
		type nat hook prerouting priority -110;
		%[1]s
	}
	chain output {
		type nat hook output priority -110;
		%[1]s
	}
	chain input {
		type filter hook input priority -1;
		ct direction original tcp dport %[2]d ct status dnat accept
		ct direction original tcp dport %[2]d counter reject with tcp reset
	}
}
`, redirects, port)
}

func (h *host) close(ctx context.Context) error {
	var err error
	if h.Unit != nil {
		err = h.Unit.Close(ctx)
	}
	h.ingress.Close()
	for _, l := range h.taken {
		_ = l.Close()
	}
	return errors.Join(err, h.Rig.Close())
}

func (h *host) network() model.Network {
	return model.Network{API: rig.APIVIPs(), Ingress: rig.IngressVIPs()}
}

func (h *host) path(f model.File) string { return filepath.Join(h.Dir, string(f)) }

// begin starts the service on a host in the first state of a sequence.
func (h *host) begin(ctx context.Context) error {
	if h.Unit != nil {
		if err := h.Unit.Close(ctx); err != nil {
			return fmt.Errorf("stop the service of the last sequence: %w", err)
		}
		h.Unit = nil
	}
	for port, l := range h.taken {
		_ = l.Close()
		delete(h.taken, port)
	}
	for _, dir := range []string{h.Dir, h.StateDir()} {
		if err := empty(dir); err != nil {
			return err
		}
	}
	_ = os.Truncate(filepath.Join(h.Host.Dir, "http01-proxyd.log"), 0)
	if err := errors.Join(h.Reset(ctx), h.ingress.Set(ctx, "")); err != nil {
		return err
	}
	now := time.Now()
	h.lost = nil
	h.model = model.New(h.network(), model.Paths{Keepalived: h.path(model.KeepalivedConf), CA: h.path(model.CABundle), Env: h.path(model.ProxyEnv)}, now)
	for _, f := range []model.File{model.KeepalivedConf, model.ConfigYAML} {
		if err := os.WriteFile(h.path(f), []byte(h.model.Content(model.Fault{Kind: model.FileWrite, File: f}).Body), 0o600); err != nil {
			return err
		}
	}
	u, err := h.NewUnit(ctx)
	if err != nil {
		return err
	}
	h.Unit = u
	return h.Unit.Start(ctx)
}

func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// inject injects a fault and records it in the model.
func (h *host) inject(ctx context.Context, f model.Fault) error {
	before := time.Now()
	done, err := h.act(ctx, f)
	if err != nil {
		return fmt.Errorf("%v: %w", f, err)
	}
	h.note(f, done, before, time.Now())
	return nil
}

// act injects a fault. done is false if it had no effect.
func (h *host) act(ctx context.Context, f model.Fault) (done bool, err error) {
	vip := h.network().API[f.VIP]
	switch f.Kind {
	case model.VIPAdd:
		return true, h.addVIP(ctx, f, "nodad")
	case model.VIPDeprecated:
		return true, h.addVIP(ctx, f, "nodad preferred_lft 0 valid_lft forever")
	case model.VIPRemove:
		return true, h.RemoveVIP(ctx, vip)
	case model.LinkDown, model.LinkUp:
		return true, h.SetLink(ctx, f.Link, f.Kind == model.LinkUp)
	case model.FlushRuleset:
		return true, h.Flush(ctx)
	case model.ForeignTable:
		return true, h.Rig.ForeignTable(ctx)
	case model.FileWrite, model.FileCut, model.FileRemove, model.FileDirectory, model.FileLoop, model.FileHuge:
		return true, h.writeFile(f)
	case model.KillProxy:
		return rig.Signal(h.Child("proxy"), unix.SIGKILL), nil
	}
	return false, fmt.Errorf("no such fault: %v", f)
}

// addVIP adds an address. The kernel refuses it on a host without IPv6, and the link may be
// down.
func (h *host) addVIP(ctx context.Context, f model.Fault, options string) error {
	vip := h.network().API[f.VIP]
	if vip.Is6() && h.model.WithoutIPv6(f.Link) {
		return nil
	}
	return h.AddVIP(ctx, vip, f.Link, options)
}

// hugeFile is the size of a file that is too large.
const hugeFile = 10_000_000

func (h *host) writeFile(f model.Fault) error {
	path := h.path(f.File)
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	next := path + ".new"
	_ = os.Remove(next)
	switch f.Kind {
	case model.FileRemove:
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	case model.FileDirectory:
		_ = os.Remove(path)
		return os.Mkdir(path, 0o750)
	case model.FileLoop:
		if err := os.Symlink(path, next); err != nil {
			return err
		}
		return os.Rename(next, path)
	}
	body := h.model.Content(f).Body
	if f.Kind == model.FileHuge {
		body = strings.Repeat("# x\n", hugeFile/4)
	}
	if info, err := os.Lstat(path); f.N%2 == 1 && err == nil && info.Mode().IsRegular() {
		return os.WriteFile(path, []byte(body), 0o600) // truncated first, as the machine-config-operator does
	}
	if err := os.WriteFile(next, []byte(body), 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// listening returns the ports on which the service listens.
func (h *host) listening() ([]int, error) {
	ports, err := h.ListeningPorts()
	return slices.DeleteFunc(ports, func(p int) bool { return h.taken[p] != nil }), err
}
