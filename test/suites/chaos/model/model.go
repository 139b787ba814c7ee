// SPDX-License-Identifier: Apache-2.0

package model

import (
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Model is a host as the generator has set it, and what the service can have kept. Its
// methods get the time: it has no clock.
type Model struct {
	Network Network
	Paths   Paths
	Slack   time.Duration // in addition to the bound of a start, on a busy machine

	running bool
	last    time.Time // of the last fault
	forced  time.Time // no comparison before: the latest bound that belongs to no file and no hanging process

	addresses map[placed]usable
	linkDown  map[int]bool
	noIPv6    bool
	taken     map[int]bool      // ports of other programs
	freed     map[int]time.Time // until which the service may not have retried a port that another program gave back
	full      bool              // the connection tracking table

	started  time.Time // the process
	reloaded time.Time // the last SIGHUP

	keepalived candidates[Keepalived]
	settles    bool // its pending content takes effect late, whatever was before
	config     candidates[Config]
	saved      map[Config]bool // last accepted configurations in the state directory
	text       string          // of the configuration file, if it is accepted
	texts      map[string]bool // of accepted configurations
	unwritable bool            // the state directory could not be written for a while
	cut        int             // writes that may have been interrupted
	readOnly   bool            // the state directory cannot be written
	slow       bool            // each fsync takes seconds
	rejected   bool            // the content of the configuration file is rejected
	source     string          // of the configuration, if it is not rejected
	ports      map[uint16]bool // on which the service can be listening; 0: none

	ingress     Mode
	ingressFrom time.Time
	exits       []exit    // of proxy processes, since the start
	hung        time.Time // since when the proxy process is stopped; zero: it is not
	gap         time.Time // until which the table may be missing
	arrived     map[netip.Addr]time.Time
	late        map[netip.Addr]time.Time // until which an API VIP may be missing in the table
	exporter    bool                     // a process of it was killed
}

// Paths are the paths of the lab's input files.
type Paths struct{ Keepalived, CA, Env string }

// placed is an address on a link.
type placed struct {
	vip  int
	link int
}

// exit is an end of a proxy process.
type exit struct {
	at      time.Time // at the latest
	certain bool
}

// usable is whether the kernel lets programs use an address.
type usable bool

// New returns the model of a host whose service has just been started with these files, and a
// variant of the configuration.
func New(n Network, p Paths, variant int, now time.Time) *Model {
	m := &Model{
		Network: n, Paths: p, running: true, last: now, addresses: make(map[placed]usable), linkDown: make(map[int]bool),
		taken: make(map[int]bool), freed: make(map[int]time.Time),
		arrived: make(map[netip.Addr]time.Time), late: make(map[netip.Addr]time.Time),
		saved: make(map[Config]bool), ports: map[uint16]bool{0: true}, source: "file",
		keepalived: newCandidates(Keepalived{}), config: newCandidates(Config{}),
	}
	config, file := n.ConfigFile(variant, p.Keepalived, p.CA, p.Env), n.KeepalivedFile(0)
	m.text, m.texts = config.Body, map[string]bool{config.Body: true}
	m.config.write(config.Config, true, now, 0, startDelay)
	m.keepalived.write(file.Keepalived, true, now, 0, startDelay)
	return m
}

// Ready records that the first process is ready, so that it has read its files.
func (m *Model) Ready() {
	m.config.accept()
	m.keepalived.accept()
	m.saved[m.config.pending] = true
}

// Content returns the text that a fault writes to a file, and what it means. A directory, a
// loop and a large file have none.
func (m *Model) Content(f Fault) Text {
	switch f.Kind {
	case FileRemove:
		switch f.File {
		case KeepalivedConf:
			return Text{Keepalived: Keepalived{Known: true, Absent: true}, Settles: true}
		default:
			return Text{Config: Defaults()}
		}
	case FileDirectory, FileLoop, FileHuge:
		return Text{Rejected: true}
	default:
	}
	whole := m.whole(f)
	if f.Kind != FileCut {
		return whole
	}
	n := len(whole.Body) * f.N / 1000
	switch f.File {
	case KeepalivedConf:
		return CutKeepalived(whole.Body, n)
	case ConfigYAML:
		return CutConfig(whole, n)
	default:
		return Text{Body: whole.Body[:n]}
	}
}

func (m *Model) whole(f Fault) Text {
	switch f.File {
	case KeepalivedConf:
		return m.Network.KeepalivedFile(f.Variant)
	case ConfigYAML:
		return m.Network.ConfigFile(f.Variant, m.Paths.Keepalived, m.Paths.CA, m.Paths.Env)
	case CABundle:
		return Text{Body: bundle}
	default:
		return Text{Body: proxyEnv}
	}
}

// Apply records a fault that was injected at a time. done is false if it had no effect:
// there was no such process, or the port was in use.
func (m *Model) Apply(f Fault, done bool, now time.Time) {
	if done && (f.Kind == PauseController || f.Kind == FewDescriptorsController) {
		m.stall(time.Duration(f.N)*time.Millisecond, now)
	}
	m.Advance(now)
	m.last = now
	if !done {
		return
	}
	before := m.held()
	defer func() {
		for _, vip := range m.held() {
			// A flap removes it first, so that it arrives again.
			if !slices.Contains(before, vip) || f.Kind == VIPFlap && vip == m.Network.API[f.VIP] {
				m.arrived[vip] = now
			}
		}
	}()
	switch f.Kind {
	case VIPAdd, VIPDeprecated:
		m.place(f, true)
	case VIPTentative, VIPDADFailed:
		m.place(f, false)
	case VIPRemove:
		m.remove(f.VIP)
	case VIPFlap: // it begins with a removal
		m.remove(f.VIP)
		if f.N%2 == 1 {
			m.place(f, true)
		}
	case LinkDown:
		m.ingressFrom = now
		m.linkDown[f.Link] = true
		m.removeIPv6(func(p placed) bool { return p.link == f.Link })
	case LinkUp:
		m.ingressFrom = now
		delete(m.linkDown, f.Link)
	case IPv6Off:
		m.noIPv6, m.ingressFrom = true, now
		m.removeIPv6(func(placed) bool { return true })
	case IPv6On:
		m.noIPv6, m.ingressFrom = false, now
	case FileWrite, FileCut, FileRemove, FileDirectory, FileLoop, FileHuge:
		m.write(f, m.Content(f), now)
	case Reload:
		m.reloaded = now
	case PortTake:
		m.taken[f.N] = true
	case PortGive:
		delete(m.taken, f.N)
		m.freed[f.N] = now.Add(retryDelay)
		m.force(now, retryDelay)
	case ConntrackFull, ConntrackFree:
		m.full, m.ingressFrom = f.Kind == ConntrackFull, now
	case IngressMode:
		m.ingress, m.ingressFrom = f.Mode, now
	case StateReadOnly, StateFull:
		m.readOnly, m.unwritable = true, true
		m.cut++
	case StateWritable:
		m.readOnly = false
	case SlowDisk:
		m.slow = true
	default:
		m.applyToProcesses(f, now)
	}
	m.drain(now)
	m.settlePorts()
}

// drain allows the requests in flight their time if the service may close its port.
func (m *Model) drain(now time.Time) {
	listens := func(o Outcome) bool { return o.Port != 0 }
	if m.running && slices.ContainsFunc(m.outcomes(m.config.now(), m.keepalived.now(), now), listens) &&
		!slices.ContainsFunc(m.outcomes(m.config.settled(), m.keepalived.settled(), now), listens) {
		m.force(latest(now.Add(react), m.keepalived.due(), m.config.due()), drainTimeout)
	}
}

// applyToProcesses records what happens to the processes of the service.
func (m *Model) applyToProcesses(f Fault, now time.Time) {
	switch f.Kind {
	case KillProxy:
		m.endHang(now)
		m.exit(now)
	case HangProxy:
		if m.hung.IsZero() || m.mayBeReplaced(now) {
			m.endHang(now)
			m.hung = now
		}
	case PauseProxy: // its end is SIGCONT
		m.endHang(now)
	case KillExporter:
		m.exporter = true
	case KillController:
		m.cut++
		m.interrupt(now)
		m.restart(now)
	case Restart:
		m.cutSlow()
		// A process that has begun to work follows VIPs until its end (reconcile.handOver).
		if m.starting(now) {
			m.interrupt(now)
		}
		m.running = true
		m.restart(now)
		if m.slow { // the process writes its files before it exits, while connections are queued
			m.gap = now.Add(m.startBound())
		}
	case Stop:
		m.cutSlow()
		m.running, m.hung = false, time.Time{}
		m.ports = map[uint16]bool{0: true}
	case Start:
		m.running = true
		m.restart(now)
	case FewDescriptors: // a probe can have failed
		m.ingressFrom = now
	case FewDescriptorsController:
		m.retryAll(now)
	case FlushRuleset:
		// Between two processes nobody owns the table (docs/internals/restart.md).
		if m.starting(now) {
			m.gap = m.started.Add(m.startBound())
		}
	default:
	}
}

// interrupt records that a process ends which may not have followed the last VIPs: the
// next one does.
func (m *Model) interrupt(now time.Time) {
	for vip, at := range m.arrived {
		followed := at.Before(now.Add(-react)) && (!m.starting(now) || at.Before(m.started.Add(-react)))
		if m.running && (!followed || now.Before(m.late[vip])) {
			m.late[vip] = now.Add(m.startBound())
		}
	}
}

func (m *Model) force(now time.Time, bound time.Duration) {
	if at := now.Add(bound); at.After(m.forced) {
		m.forced = at
	}
}

func (m *Model) place(f Fault, works usable) {
	if m.noIPv6 && m.Network.API[f.VIP].Is6() || m.linkDown[f.Link] && m.Network.API[f.VIP].Is6() {
		return
	}
	m.addresses[placed{f.VIP, f.Link}] = works
}

func (m *Model) remove(vip int) {
	maps.DeleteFunc(m.addresses, func(p placed, _ usable) bool { return p.vip == vip })
}

func (m *Model) removeIPv6(on func(placed) bool) {
	maps.DeleteFunc(m.addresses, func(p placed, _ usable) bool { return m.Network.API[p.vip].Is6() && on(p) })
}

// write records new content of a file.
func (m *Model) write(f Fault, t Text, now time.Time) {
	earliest := time.Duration(0)
	if t.Settles { // the process may have seen it somewhat before now
		earliest = lossDelay - react
	}
	start := time.Duration(0)
	if m.starting(now) { // nobody reads it before
		start = startDelay + react
	}
	switch f.File {
	case KeepalivedConf:
		m.keepalived.write(t.Keepalived, !t.Rejected, now, earliest, start+m.delayOf(t.Keepalived, t.Settles))
		m.settles = t.Settles
		if t.Rejected { // such a file is an error, which the absence of one is not
			m.keepalived.replace(func(k Keepalived) bool { return k.Absent }, Keepalived{})
		}
		if m.starting(now) {
			m.keepalived.may(Keepalived{})
		}
	case ConfigYAML:
		m.writeConfig(f, t, now, earliest, start)
	case CABundle, ProxyEnv: // see bundle
	}
}

// writeConfig records new content of config.yaml. A process reads it after start at the latest.
func (m *Model) writeConfig(f Fault, t Text, now time.Time, earliest, start time.Duration) {
	delay := start + react + changeDelay
	if t.Settles {
		delay = start + react + lossDelay
	}
	m.config.write(t.Config, !t.Rejected, now, earliest, delay)
	if m.starting(now) {
		for _, c := range m.lastAccepted() {
			m.config.may(c)
		}
	}
	m.rejected, m.source = t.Rejected, "file"
	if m.text = t.Body; !t.Rejected {
		m.texts[t.Body] = true
	}
	if f.Kind == FileRemove {
		m.source = "default"
	}
	if now.Before(m.reloaded.Add(react)) {
		// A reload accepts at once what it finds: nothing, while the file is replaced.
		m.config.may(Defaults())
		m.texts[""] = true
		m.keepalived.may(Keepalived{}) // of another path then
	}
	for _, c := range m.config.now() {
		if c.Known && !m.readOnly {
			m.saved[c] = true
		}
	}
	m.keepalived.delay(now, m.delayOf(m.keepalived.pending, m.settles))
	if !m.config.pending.Keepalived && m.config.takes { // the reader of the other path has nothing
		m.keepalived.may(Keepalived{})
	}
}

// delayOf returns how long content must stay: lossDelay if it lacks something that is in
// use (keepalived.Reader.Read).
func (m *Model) delayOf(k Keepalived, settles bool) time.Duration {
	for _, last := range m.keepalived.now() {
		settles = settles || loses(last, k)
	}
	if settles {
		return react + lossDelay
	}
	return react
}

// loses reports whether an API VIP or an ingress VIP is gone. That is not less than what
// keepalived.VIPs.FewerThan compares.
func loses(before, after Keepalived) bool {
	gone := func(was, is Set) bool {
		return slices.ContainsFunc(was.List(), func(a netip.Addr) bool { return !is.Has(a) })
	}
	return gone(before.API, after.API) || gone(before.Ingress, after.Ingress)
}

// restart records that another process of the service starts. It has nothing of
// keepalived.conf. It changes nothing that the one before has left until it has read a
// complete file, or startTimeout has passed (reconcile.deferUntilObserved): so a good file
// is never unknown to the outside.
func (m *Model) restart(now time.Time) {
	m.exits, m.exporter = nil, false
	m.hung = time.Time{}
	m.started = now
	m.force(now, startDelay+react)
	if m.keepalived.takes && !m.settles {
		m.keepalived.reset(now, startDelay+react, m.keepalived.pending)
	} else {
		m.keepalived.reset(now, startDelay+lossDelay+react, Keepalived{})
		m.force(now, startDelay+startTimeout+react)
	}
	if m.config.takes && m.config.pending != Defaults() {
		m.config.reset(now, startDelay+react, m.config.pending)
	} else { // an empty file is accepted late
		m.config.reset(now, startDelay+lossDelay+react, m.lastAccepted()...)
	}
	m.ports[0] = true
}

// lastAccepted returns what a new process can find in the state directory.
func (m *Model) lastAccepted() []Config {
	last := slices.Collect(maps.Keys(m.saved))
	if len(last) == 0 || m.slow { // the process can have been killed before the first one was written
		last = append(last, Config{})
	}
	return last
}

// starting reports whether the process may not have read its files yet.
func (m *Model) starting(now time.Time) bool { return now.Before(m.started.Add(m.startBound())) }

// startBound is how long a start takes at most, with the first pass.
func (m *Model) startBound() time.Duration { return startDelay + react + m.Slack }

// stall records that the controller did not run for the time before now: what it had not done
// before, it does that much later.
func (m *Model) stall(stopped time.Duration, now time.Time) {
	begin := now.Add(-stopped)
	m.Advance(begin)
	if !m.hung.IsZero() && stopped >= stallThreshold { // the controller's own stall is no silence of the proxy process
		m.hung = now
	}
	if begin.Before(m.reloaded.Add(react)) {
		m.reloaded = now
	}
	m.config.since, m.keepalived.since = m.config.since.Add(stopped), m.keepalived.since.Add(stopped)
	for vip, at := range m.arrived { // the table may have lacked it at the begin
		due := at.Add(react)
		if at.After(m.started.Add(-react)) {
			due = latest(due, m.started.Add(m.startBound()))
		}
		if m.running && due.After(begin) {
			m.late[vip] = latest(m.late[vip], due)
		}
	}
	if m.starting(begin) {
		m.started = m.started.Add(stopped)
	}
	later := func(at time.Time) time.Time {
		if at.After(begin) {
			at = at.Add(stopped)
		}
		return at
	}
	m.forced, m.gap = later(m.forced), later(m.gap)
	for port, at := range m.freed {
		m.freed[port] = later(at)
	}
	for vip, at := range m.late {
		m.late[vip] = later(at)
	}
}

// retryAll records that everything for which the controller needs a descriptor may have failed
// until now: reads and writes of files, sockets, the start of processes.
func (m *Model) retryAll(now time.Time) {
	m.unwritable, m.exporter = true, true
	m.config.delay(now, retryDelay+react)
	m.keepalived.delay(now, retryDelay+react)
	m.force(now, retryDelay+react)
}

func (m *Model) exit(at time.Time) {
	m.exits = append(m.exits, exit{at, true})
	m.force(at, m.backoff(len(m.exits))+react)
}

// backoff returns how late the process after the n-th exit starts.
func (*Model) backoff(n int) time.Duration { return min(proxyBackoff<<min(n, 10), maxProxyBackoff) }

// mayBeReplaced reports whether the controller can have replaced a proxy process that is stopped.
func (m *Model) mayBeReplaced(now time.Time) bool { return now.Sub(m.hung) > earliestSilence }

// endHang records that the proxy process is not stopped any more.
func (m *Model) endHang(now time.Time) {
	if !m.hung.IsZero() && m.mayBeReplaced(now) {
		m.exits = append(m.exits, exit{now, false})
	}
	m.hung = time.Time{}
}

// advanceHang records the exit of a stopped proxy process that must have been replaced.
func (m *Model) advanceHang(now time.Time) {
	if replaced := m.hung.Add(silentProxy); !m.hung.IsZero() && !now.Before(replaced) {
		m.hung = time.Time{}
		m.exit(replaced)
	}
}

// Advance drops what can no longer be.
func (m *Model) Advance(now time.Time) {
	m.advanceHang(now)
	m.config.advance(now)
	reads := true
	for _, c := range m.config.now() {
		reads = reads && c.readsKeepalived()
	}
	if reads && m.running {
		m.keepalived.advance(now)
	}
	if !m.readOnly {
		for _, c := range m.config.now() {
			if c.Known {
				m.saved[c] = true
			}
		}
	}
	if now.Before(m.Due(m.last)) || !m.running {
		return
	}
	if settled := m.outcomes(m.config.now(), m.keepalived.now(), now); len(settled) == 1 {
		m.ports = map[uint16]bool{settled[0].Port: true}
	}
}

// Due returns when the host must agree with the model.
func (m *Model) Due(now time.Time) time.Time {
	bounds := []time.Time{now.Add(react), m.forced, m.keepalived.due(), m.config.due()}
	if !m.hung.IsZero() {
		bounds = append(bounds, m.hung.Add(silentProxy+m.backoff(len(m.exits)+1)+react))
	}
	if m.full {
		bounds = append(bounds, now.Add(undelivered+react))
	}
	return latest(bounds...)
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// WithoutIPv6 reports whether a link can have no IPv6 address.
func (m *Model) WithoutIPv6(link int) bool { return m.noIPv6 || m.linkDown[link] }

// Unusable reports whether an address is on a link and cannot be used: duplicate address
// detection has not ended, or has failed.
func (m *Model) Unusable(vip, link int) bool {
	works, there := m.addresses[placed{vip, link}]
	return there && !bool(works)
}

// Running reports whether the service must run.
func (m *Model) Running() bool { return m.running }
