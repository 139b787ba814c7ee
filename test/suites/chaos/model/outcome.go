// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Outcome is what must be true of the host.
type Outcome struct {
	Running bool
	Port    uint16                // of the table and the service's listening socket; 0: neither
	Held    Set                   // the elements of the table's sets
	VIPs    map[netip.Addr]string // the state of each API VIP
	Reasons []string              // of the condition: one of these
	Source  string                // of the configuration
	Metrics uint16                // a listening socket; 0: none
	Maybe   bool                  // the socket of metrics may be missing
}

// String returns the outcome in one line.
func (o Outcome) String() string {
	if !o.Running {
		return "stopped: no table, no socket"
	}
	var vips []string
	for _, a := range slices.SortedFunc(maps.Keys(o.VIPs), netip.Addr.Compare) {
		vips = append(vips, fmt.Sprintf("%v %s", a, o.VIPs[a]))
	}
	return fmt.Sprintf("port %d, sets {%s}, VIPs {%s}, reason %s, configuration %s, metrics %d",
		o.Port, o.Held, strings.Join(vips, ", "), strings.Join(o.Reasons, " or "), o.Source, o.Metrics)
}

// Expect returns the outcomes of which one must be true when all bounds have passed; now is
// the time of the comparison.
func (m *Model) Expect(now time.Time) []Outcome {
	if !m.running {
		return []Outcome{{}}
	}
	return m.outcomes(m.config.settled(), m.keepalived.settled(), now)
}

// outcomes returns the different outcomes of all combinations.
func (m *Model) outcomes(configs []Config, files []Keepalived, now time.Time) []Outcome {
	var list []Outcome
	seen := make(map[string]bool)
	for _, c := range configs {
		for _, k := range files {
			for _, port := range m.portsFor(c.Port) {
				o := m.outcome(c, k, port, now)
				if text := o.String(); !seen[text] {
					seen[text] = true
					list = append(list, o)
				}
			}
		}
	}
	return list
}

// Serves reports whether clients of a VIP must be answered by the ingress at this moment,
// whatever the service has seen of the last faults.
func (m *Model) Serves(vip netip.Addr, now time.Time) bool {
	if !m.hung.IsZero() || now.Before(m.gap) || now.Before(m.late[vip]) {
		return false
	}
	return m.serves(vip, m.outcomes(m.config.now(), m.keepalived.now(), now),
		func(port uint16) bool { return !now.Before(m.freed[int(port)]) })
}

// WillServe reports whether that is so when all bounds have passed.
func (m *Model) WillServe(vip netip.Addr, now time.Time) bool {
	return m.serves(vip, m.outcomes(m.config.settled(), m.keepalived.settled(), now), func(uint16) bool { return true })
}

func (m *Model) serves(vip netip.Addr, outcomes []Outcome, open func(port uint16) bool) bool {
	if !m.running || m.full || m.ingress == Refused || m.ingress == Silent || m.ingress == Resets || m.ingress == Large {
		return false
	}
	if !m.reachable(slices.Index(m.Network.API, vip)) {
		return false
	}
	return !slices.ContainsFunc(outcomes, func(o Outcome) bool { return o.Port == 0 || !open(o.Port) || !o.Held.Has(vip) })
}

// reachable reports whether clients reach a VIP: it is on a link, and the link to the
// clients is up.
func (m *Model) reachable(vip int) bool {
	if m.linkDown[0] {
		return false
	}
	return slices.ContainsFunc(slices.Collect(maps.Keys(m.addresses)), func(p placed) bool {
		return p.vip == vip && bool(m.addresses[p]) && !m.linkDown[p.link]
	})
}

func (m *Model) held() []netip.Addr {
	var list []netip.Addr
	for p, works := range m.addresses {
		if works {
			list = append(list, m.Network.API[p.vip])
		}
	}
	return list
}

// portsFor returns the ports on which the service can be listening if it requires one.
func (m *Model) portsFor(want uint16) []uint16 {
	if !m.taken[int(want)] {
		return []uint16{want}
	}
	return slices.Collect(maps.Keys(m.ports))
}

// settlePorts records on which ports the service can be listening.
func (m *Model) settlePorts() {
	if !m.running {
		return
	}
	for _, o := range m.outcomes(m.config.now(), m.keepalived.now(), time.Time{}) {
		m.ports[o.Port] = true
	}
	maps.DeleteFunc(m.ports, func(port uint16, _ bool) bool { return m.taken[int(port)] })
}

// outcome is the decision for one combination. port is the one on which the service
// listens if it listens.
func (m *Model) outcome(c Config, k Keepalived, port uint16, now time.Time) Outcome {
	o := Outcome{Running: true, Source: m.source, Metrics: c.Metrics, Maybe: m.exporter}
	reason := ""
	if m.rejected {
		o.Source = "last-accepted"
	}
	if !c.Known {
		o.Source, o.Metrics, o.Reasons = "none", 0, []string{"InvalidConfig"}
		return o
	}
	api, ingress := c.API, c.Ingress
	switch {
	case c.Disabled:
		reason = "Disabled"
	case c.explicit():
	case !c.Keepalived, k.Known && k.Absent:
		reason = "NotRequired"
	case !k.Known, k.API == "", k.Ingress == "":
		reason = "NoVIPs"
	default:
		api, ingress = k.API, k.Ingress
	}
	if reason == "" {
		reason = m.serve(&o, api, ingress, c.Port, port)
	}
	o.Reasons = m.reasons(reason, now)
	return o
}

// serve sets the outcome for VIPs and returns the reason.
func (m *Model) serve(o *Outcome, api, ingress Set, want, port uint16) string {
	held := m.held()
	o.VIPs = make(map[netip.Addr]string)
	var redirected []netip.Addr
	standby := false
	for _, vip := range api.List() {
		switch {
		case ingress.Has(vip):
			o.VIPs[vip] = "NotRequired"
		case slices.Contains(held, vip):
			o.VIPs[vip] = "Held"
			redirected = append(redirected, vip)
		default:
			o.VIPs[vip] = "Standby"
			standby = true
		}
	}
	if len(redirected) == 0 && !standby {
		return "NotRequired"
	}
	if port != 0 {
		o.Port, o.Held = port, NewSet(redirected...)
	}
	switch {
	case port != want:
		return "PortInUse"
	case len(redirected) > 0:
		return "Serving"
	default:
		return "Standby"
	}
}

// reasons returns the possible reasons of the condition.
func (m *Model) reasons(reason string, now time.Time) []string {
	if m.rejected {
		switch reason {
		case "Serving", "Standby", "NotRequired", "Disabled":
			return []string{"InvalidConfig"}
		}
		return []string{reason}
	}
	reasons := []string{reason}
	if reason == "Serving" && (m.full || m.linkDown[0] || m.ingress != Normal && m.ingress != Dribble &&
		m.ingress != Large) {
		reasons = append(reasons, "UpstreamUnreachable")
		if m.ingress == Refused && !m.full && now.Sub(m.ingressFrom) > probeDelay+probeRetryDelay {
			reasons = reasons[1:]
		}
	} else if reason == "Serving" && now.Sub(m.ingressFrom) < probeRetryDelay+react {
		reasons = append(reasons, "UpstreamUnreachable")
	}
	if reason == "Serving" || reason == "Standby" {
		must, may := m.proxyFails(now)
		switch {
		case must:
			reasons = []string{"ProxyUnavailable"}
		case may:
			reasons = append(reasons, "ProxyUnavailable")
		}
	}
	return reasons
}

// proxyFails reports whether the state must and can report an exit of the proxy process.
func (m *Model) proxyFails(now time.Time) (must, may bool) {
	if !m.hung.IsZero() {
		return false, true
	}
	if len(m.exits) == 0 {
		return false, false
	}
	last := m.exits[len(m.exits)-1].at
	certain, possible := 0, 0
	for _, e := range m.exits {
		if e.certain && last.Sub(e.at) < exitWindow-silentProxy {
			certain++
		}
		if last.Sub(e.at) < exitWindow {
			possible++
		}
	}
	until := last.Add(stableLifetime)
	if possible >= frequentExits {
		until = last.Add(exitWindow)
	}
	may = now.Before(until.Add(maxProxyBackoff + react))
	// An exit can be earlier than its latest time.
	must = certain >= frequentExits && now.Before(last.Add(exitWindow-silentProxy))
	return must, may
}

// Cut returns the API VIPs to which a fault costs the requests in flight
// (docs/internals/restart.md). It is called before Apply, with the begin of the fault.
func (m *Model) Cut(f Fault, begun time.Time) []netip.Addr {
	all := func(cut func(vip int) bool) (vips []netip.Addr) {
		for i, vip := range m.Network.API {
			if cut(i) {
				vips = append(vips, vip)
			}
		}
		return vips
	}
	switch f.Kind {
	case KillProxy, KillController, HangProxy, FewDescriptors, Stop, IngressMode, ConntrackFull:
		return m.Network.API
	case PauseController:
		// It starts no proxy process meanwhile, and clients give up after ten seconds.
		replaces := len(m.exits) > 0 && begun.Before(m.exits[len(m.exits)-1].at.Add(m.backoff(len(m.exits))+react))
		if f.N >= int(stallThreshold.Milliseconds()) && (m.starting(begun) || replaces) {
			return m.Network.API
		}
		return nil
	case LinkDown, LinkUp:
		return all(func(vip int) bool {
			_, there := m.addresses[placed{vip, f.Link}]
			return f.Link == 0 || there // clients use the first link
		})
	case IPv6Off, IPv6On:
		return all(func(vip int) bool { return m.Network.API[vip].Is6() })
	case VIPRemove, VIPFlap, VIPTentative, VIPDADFailed:
		return all(func(vip int) bool { return vip == f.VIP })
	default:
		return nil
	}
}

// Lingers reports whether requests that begin shortly after a fault can be lost too: a
// proxy process accepts a few more until it notices the end of its controller, and has kept
// connections to an ingress that has just closed them.
func (f Fault) Lingers() bool { return f.Kind == KillController || f.Kind == IngressMode }

// Recovery returns how long requests may still fail to a VIP that is served from now on and
// was not before: the service needs its second, and a process that starts its time.
func (m *Model) Recovery(now time.Time) time.Duration {
	return max(react, m.started.Add(m.startBound()).Sub(now))
}
