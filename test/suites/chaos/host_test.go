// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/suites/chaos/model"
	"github.com/http01-proxyd/http01-proxyd/test/support/conntrack"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/rig"
	"github.com/http01-proxyd/http01-proxyd/test/support/slowsync"
)

// host is a rig with the service, to which faults are injected.
type host struct {
	*rig.Rig
	*rig.Unit
	ingress     *rig.Ingress
	clients     *rig.Clients
	model       *model.Model
	taken       map[int]net.Listener
	rules       map[uint16][]string // of the service's table by port: what the real nft prints
	requests    ledger
	inputs      map[string]string                   // the input files as the rig has left them: see snapshot
	disk        *slowsync.Delayer                   // of services that are started with it
	dns         net.PacketConn                      // a name server that never answers
	conntrack   *conntrack.Table                    // entries of other connections; nil: none
	served      atomic.Pointer[map[netip.Addr]bool] // for the clients
	stopTraffic func()
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
	if err := unix.Mount("chaos", r.StateDir(), "tmpfs", 0, "size="+strconv.Itoa(stateBytes)); err != nil {
		return nil, errors.Join(fmt.Errorf("mount the state directory: %w", err), r.Close())
	}
	if h.disk, err = slowsync.New(r.Host.Dir, slowSync); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	if h.dns, err = r.ListenSilently(ctx, 53); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	for _, port := range []uint16{model.DefaultPort, model.OtherPort} {
		t, err := r.LoadTable(ctx, tableText(port))
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		h.rules[port] = t.Rules
	}
	h.clients = r.StartClients(ctx, rig.APIVIPs(), *rate, time.Second, clientsInFlight, h.isServed)
	h.clients.Pause()
	attack, stop := context.WithCancel(ctx)
	wait := r.StartAttackers(attack, rig.APIVIPs(), *attacks, attackHold)
	h.stopTraffic = func() {
		stop()
		wait()
		h.clients.Close()
	}
	return h, nil
}

const (
	// clientsInFlight is enough for the rate while every request takes its full ten seconds.
	clientsInFlight = 100
	// attackHold is how long attackers keep a connection.
	attackHold = 2 * time.Second
	// slowSync is the time of an fsync on a slow disk.
	slowSync = 5 * time.Second
	// stateBytes is the size of the file system of the state directory.
	stateBytes = 256 << 10
)

// tableText is the service's table of DESIGN.md, with empty sets.
func tableText(port uint16) string {
	redirects := fmt.Sprintf(`ip daddr @api4 tcp dport 80 fib daddr type local counter dnat to :%[1]d
		ip6 daddr @api6 tcp dport 80 fib daddr type local counter dnat to :%[1]d`, port)
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
	chain reject-prerouting {
		type nat hook prerouting priority -90;
		tcp dport %[2]d fib daddr type local counter reject with tcp reset
	}
	chain reject-output {
		type nat hook output priority -90;
		tcp dport %[2]d fib daddr type local counter reject with tcp reset
	}
}
`, redirects, port)
}

func (h *host) close(ctx context.Context) error {
	h.stopTraffic()
	var err error
	if h.Unit != nil {
		err = h.Unit.Close(ctx)
	}
	h.ingress.Close()
	_, free := h.actOnConntrack(model.Fault{Kind: model.ConntrackFree})
	err = errors.Join(err, free, h.disk.Close(), h.dns.Close())
	for _, l := range h.taken {
		_ = l.Close()
	}
	return errors.Join(err, unix.Unmount(h.StateDir(), unix.MNT_DETACH), h.Rig.Close())
}

func (h *host) network() model.Network {
	return model.Network{API: rig.APIVIPs(), Ingress: rig.IngressVIPs()}
}

func (h *host) logFile() string { return filepath.Join(h.Host.Dir, "http01-proxyd.log") }

func (h *host) path(f model.File) string { return filepath.Join(h.Dir, string(f)) }

// begin starts the service on a host in the first state of a sequence.
func (h *host) begin(ctx context.Context, slow bool) error {
	if err := h.ingress.Set(ctx, ""); err != nil {
		return err
	}
	for port, l := range h.taken {
		_ = l.Close()
		delete(h.taken, port)
	}
	if err := h.discard(ctx); err != nil {
		return fmt.Errorf("end the service of the last sequence: %w", err)
	}
	if err := h.actOnState(model.Fault{Kind: model.StateWritable}); err != nil {
		return err
	}
	if _, err := h.actOnConntrack(model.Fault{Kind: model.ConntrackFree}); err != nil {
		return err
	}
	for _, dir := range []string{h.Dir, h.StateDir()} {
		if err := empty(dir); err != nil {
			return err
		}
	}
	_ = os.Truncate(h.logFile(), 0)
	// Entries of cut connections last for days. One with an earlier internalPort would have the
	// host refuse a client that uses its own port again.
	if err := errors.Join(h.Reset(ctx), conntrack.Flush(h.Host)); err != nil {
		return err
	}
	now := time.Now()
	h.model = model.New(h.network(), model.Paths{
		Keepalived: h.path(model.KeepalivedConf), CA: h.path(model.CABundle),
		Env: h.path(model.ProxyEnv),
	}, model.AllProcesses, now)
	for f, variant := range map[model.File]int{model.KeepalivedConf: 0, model.ConfigYAML: model.AllProcesses} {
		if err := os.WriteFile(h.path(f),
			[]byte(h.model.Content(model.Fault{Kind: model.FileWrite, File: f, Variant: variant}).Body), 0o600); err != nil {
			return err
		}
	}
	var err error
	if h.inputs, err = snapshot(h.Dir); err != nil {
		return err
	}
	var wrap []string
	if slow {
		wrap = h.disk.Command()
	}
	u, err := h.NewUnit(wrap...)
	if err != nil {
		return err
	}
	h.Unit = u
	start := time.Now()
	if err := errors.Join(h.Start(), h.AwaitReady(ctx)); err != nil {
		return err
	}
	run.starts.add(time.Since(start))
	h.model.Ready()
	h.requests = ledger{start: h.clients.Sent(), causes: make(map[netip.Addr]model.Fault)}
	h.note(model.Fault{}, nil, time.Now(), time.Now())
	h.clients.Resume()
	return nil
}

// discard ends the service of the last sequence and waits until its child processes
// close their sockets.
func (h *host) discard(ctx context.Context) error {
	last := h.Unit
	if last == nil {
		return nil
	}
	h.Unit = nil
	if err := last.Discard(ctx); err != nil {
		return err
	}
	return lab.Eventually(ctx, "the end of the child processes", func(context.Context) error {
		ports, err := h.ListeningPorts()
		if err == nil && len(ports) > 0 {
			err = fmt.Errorf("listening on %v", ports)
		}
		return err
	})
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

// act injects a fault. done is false if it had no effect.
func (h *host) act(ctx context.Context, f model.Fault) (done bool, err error) {
	switch f.Kind {
	case model.VIPAdd, model.VIPDeprecated, model.VIPTentative, model.VIPDADFailed, model.VIPRemove, model.VIPFlap,
		model.LinkDown, model.LinkUp, model.IPv6Off, model.IPv6On, model.Overflow:
		return true, h.actOnAddresses(ctx, f)
	case model.FileWrite, model.FileCut, model.FileRemove, model.FileDirectory, model.FileLoop, model.FileHuge:
		return true, errors.Join(h.writeFile(f), h.recordInput(string(f.File)))
	case model.FlushRuleset:
		return true, h.Flush(ctx)
	case model.ForeignTable:
		return true, h.ForeignTable(ctx)
	case model.PortTake, model.PortGive:
		return h.actOnPort(ctx, f), nil
	case model.StateReadOnly, model.StateFull, model.StateWritable:
		err := h.actOnState(f)
		if errors.Is(err, unix.EBUSY) { // a file is open for writing, on a slow disk for long
			return false, nil
		}
		return true, err
	case model.ConntrackFull, model.ConntrackFree:
		return h.actOnConntrack(f)
	case model.IngressMode:
		return true, h.ingress.Set(ctx, string(f.Mode))
	case model.SlowDisk: // see begin
		return true, nil
	case model.SilentDNS:
		const name = "resolv.conf"
		text := "nameserver " + rig.NameServer().String() + "\n"
		return true, errors.Join(os.WriteFile(filepath.Join(h.Dir, name), []byte(text), 0o600), h.recordInput(name))
	default:
		return h.actOnProcesses(ctx, f)
	}
}

func (h *host) actOnAddresses(ctx context.Context, f model.Fault) error {
	vip := h.network().API[f.VIP]
	switch f.Kind {
	case model.VIPAdd:
		return h.addVIP(f, rig.Usable)
	case model.VIPDeprecated:
		return h.addVIP(f, rig.Deprecated)
	case model.VIPTentative:
		return h.addWithDAD(f, manyProbes)
	case model.VIPDADFailed:
		return h.addDuplicate(ctx, f)
	case model.VIPRemove:
		return h.RemoveVIP(vip)
	case model.VIPFlap:
		return h.flap(ctx, f)
	case model.LinkDown, model.LinkUp:
		return h.SetLink(ctx, f.Link, f.Kind == model.LinkUp)
	case model.IPv6Off, model.IPv6On:
		return h.SetIPv6(ctx, f.Kind == model.IPv6On)
	case model.Overflow:
		pid := h.PID()
		rig.Signal(pid, unix.SIGSTOP)
		defer rig.Signal(pid, unix.SIGCONT)
		return h.ManyAddressEvents(ctx, overflowEvents)
	default:
		return fmt.Errorf("no fault of addresses: %v", f)
	}
}

// overflowEvents is more than the service's receive buffer holds. TestOverflow shows it.
const overflowEvents = 4000

// addVIP adds an address. The kernel refuses one on a host without IPv6.
func (h *host) addVIP(f model.Fault, l rig.Lifetime) error {
	vip := h.network().API[f.VIP]
	if vip.Is6() && h.model.WithoutIPv6(f.Link) {
		return nil
	}
	if h.model.Unusable(f.VIP, f.Link) { // replacing it would change nothing
		if err := h.RemoveVIPFrom(vip, f.Link); err != nil {
			return err
		}
	}
	return h.AddVIP(vip, f.Link, l)
}

// manyProbes keeps an address tentative: one probe a second.
const manyProbes = 600

// addWithDAD adds an IPv6 address with duplicate address detection.
func (h *host) addWithDAD(f model.Fault, probes int) error {
	vip := h.network().API[f.VIP]
	if h.model.WithoutIPv6(f.Link) {
		return nil
	}
	if err := h.RemoveVIPFrom(vip, f.Link); err != nil {
		return err
	}
	if err := h.Sysctl("ipv6/conf/"+rig.LinkName(f.Link)+"/dad_transmits", strconv.Itoa(probes)); err != nil {
		return err
	}
	return h.AddVIP(vip, f.Link, rig.Tentative)
}

// addDuplicate adds an IPv6 address that another host has.
func (h *host) addDuplicate(ctx context.Context, f model.Fault) error {
	vip := h.network().API[f.VIP]
	if h.model.WithoutIPv6(0) {
		return nil
	}
	remove, err := h.Duplicate(ctx, vip)
	if err != nil {
		return err
	}
	err = h.addWithDAD(f, 1)
	if err == nil {
		err = h.AwaitDADFailed(ctx, vip)
	}
	return errors.Join(err, remove())
}

// flapInterval is the time between two changes of VIPFlap: 100 a second.
const flapInterval = 10 * time.Millisecond

func (h *host) flap(ctx context.Context, f model.Fault) error {
	vip := h.network().API[f.VIP]
	if err := h.RemoveVIP(vip); err != nil {
		return err
	}
	if vip.Is6() && h.model.WithoutIPv6(f.Link) {
		return nil
	}
	begin := time.Now()
	for i := range f.N {
		// A change that is late does not delay the next ones.
		select {
		case <-time.After(time.Until(begin.Add(time.Duration(i) * flapInterval))):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		var err error
		if i%2 == 0 {
			err = h.AddVIP(vip, f.Link, rig.Usable)
		} else {
			err = h.RemoveVIPFrom(vip, f.Link)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// actOnPort makes another program take a port or release it.
func (h *host) actOnPort(ctx context.Context, f model.Fault) bool {
	held := h.taken[f.N]
	if f.Kind == model.PortGive {
		if held != nil {
			_ = held.Close()
			delete(h.taken, f.N)
		}
		return held != nil
	}
	if held != nil {
		return false
	}
	l, err := h.Host.Listen(ctx, ":"+strconv.Itoa(f.N))
	if err != nil {
		return false // the service has it
	}
	h.taken[f.N] = l
	return true
}

// actOnConntrack fills the connection tracking table of the host, or empties it.
func (h *host) actOnConntrack(f model.Fault) (done bool, err error) {
	full := h.conntrack
	if f.Kind == model.ConntrackFree {
		h.conntrack = nil
		if full == nil {
			return false, nil
		}
		return true, full.Close()
	}
	if full != nil {
		return false, nil
	}
	if full, err = conntrack.Open(h.Host); err != nil {
		return false, err
	}
	h.conntrack = full
	return true, full.Fill(0, full.Max)
}

// actOnState changes the file system of the state directory.
func (h *host) actOnState(f model.Fault) error {
	filler := filepath.Join(h.StateDir(), "filler")
	remount := func(flags uintptr) error {
		return unix.Mount("", h.StateDir(), "", unix.MS_REMOUNT|flags, "")
	}
	switch f.Kind {
	case model.StateReadOnly:
		return remount(unix.MS_RDONLY)
	case model.StateFull:
		if err := remount(0); err != nil {
			return err
		}
		if err := os.WriteFile(filler, make([]byte, stateBytes), 0o600); !errors.Is(err, unix.ENOSPC) {
			return fmt.Errorf("fill the state directory: %w", err)
		}
		return nil
	default:
		if err := remount(0); err != nil {
			return err
		}
		if err := os.Remove(filler); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
}

// actOnProcesses signals, starts and stops processes of the service.
func (h *host) actOnProcesses(ctx context.Context, f model.Fault) (done bool, err error) {
	hold := time.Duration(f.N) * time.Millisecond
	switch f.Kind {
	case model.KillProxy:
		return rig.Kill(h.Child("proxy"))
	case model.KillExporter:
		return rig.Signal(h.Child("exporter"), unix.SIGKILL), nil
	case model.KillProber:
		return rig.Signal(h.Child("prober"), unix.SIGKILL), nil
	case model.KillController:
		return rig.Signal(h.PID(), unix.SIGKILL), nil
	case model.HangProxy:
		return rig.Signal(h.Child("proxy"), unix.SIGSTOP), nil
	case model.PauseProxy:
		return pause(h.Child("proxy"), hold), nil
	case model.PauseController:
		return pause(h.PID(), hold), nil
	case model.PauseExporter:
		return pause(h.Child("exporter"), hold), nil
	case model.PauseProber:
		return pause(h.Child("prober"), hold), nil
	case model.FewDescriptors:
		return starve(ctx, h.Child("proxy"), hold)
	case model.FewDescriptorsController:
		if !h.Ready() { // a start without descriptors is another fault
			return false, nil
		}
		return starve(ctx, h.PID(), hold)
	case model.Reload:
		return h.Ready() && rig.Signal(h.PID(), unix.SIGHUP), nil // systemd reloads a unit that is ready
	case model.Restart:
		return true, h.Restart(ctx)
	case model.Stop:
		return true, h.Stop(ctx)
	case model.Start:
		if h.model.Running() {
			return false, nil
		}
		return true, h.Start()
	default:
		return false, fmt.Errorf("no such fault: %v", f)
	}
}

// pause stops a process for a while.
func pause(pid int, hold time.Duration) bool {
	if !rig.Signal(pid, unix.SIGSTOP) {
		return false
	}
	<-time.After(hold)
	rig.Signal(pid, unix.SIGCONT)
	return true
}

// starve leaves a process no descriptor to open, for a while.
func starve(ctx context.Context, pid int, hold time.Duration) (done bool, err error) {
	if pid == 0 {
		return false, nil
	}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil {
		return false, nil //nolint:nilerr // it has exited
	}
	found := openFiles.FindSubmatch(limits)
	if found == nil {
		return false, fmt.Errorf("the process %d has no limit of descriptors: %s", pid, limits)
	}
	if err := limitDescriptors(ctx, pid, "3"); err != nil {
		return false, err
	}
	<-time.After(hold)
	return true, limitDescriptors(ctx, pid, string(found[1]))
}

// openFiles finds the soft limit of descriptors in /proc/PID/limits.
var openFiles = regexp.MustCompile(`(?m)^Max open files +([0-9]+) `)

// limitDescriptors sets the soft limit of a process as its own user: without CAP_SYS_RESOURCE,
// root may not change the limit of another user's process (prlimit(2)).
func limitDescriptors(ctx context.Context, pid int, soft string) error {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil //nolint:nilerr // it has exited
	}
	var id uint32
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "Uid:\t%d", &id); err == nil {
			break
		}
	}
	cmd := exec.CommandContext(ctx, "prlimit", "--pid", strconv.Itoa(pid), "--nofile="+soft+":")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
	if out, err := cmd.CombinedOutput(); err != nil && !strings.Contains(string(out), "No such process") {
		return fmt.Errorf("limit the descriptors of process %d: %w: %s", pid, err, out)
	}
	return nil
}

// expect injects a sequence and fails if the host then differs from the model.
func (h *host) expect(ctx context.Context, t *testing.T, faults ...model.Fault) {
	t.Helper()
	if r := h.sequence(ctx, faults); r.failure() != "" {
		t.Errorf("%s\nlog:\n%s", r.failure(), r.log)
	}
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
	default:
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
