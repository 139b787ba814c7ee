// SPDX-License-Identifier: Apache-2.0

package rehearsal

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// fault is one injected fault.
type fault struct {
	title        string
	node         *lab.ControlPlaneNode // held the VIPs at the beginning
	next         *lab.ControlPlaneNode // holds them at the end
	begin, end   time.Time             // end: the clients reach the VIPs again
	briefHolders []string              // other nodes that held a VIP for a moment
}

const (
	// garpDelay is the time until keepalived announces a VIP again (keepalived.conf(5),
	// garp_master_delay). A neighbour that has the wrong node keeps it for so long.
	garpDelay = 5 * time.Second
	// settleLimit bounds the time that two nodes hold a VIP, and the delay of the services that
	// report it: garpDelay, and a margin for a busy machine.
	settleLimit = garpDelay + 10*time.Second
)

// addBriefHolders adds the nodes to each fault that lost a VIP in it or until its neighbours
// have settled: when VIPs move on a busy machine, two nodes can become master (RFC 9568,
// section 6.4.3), and one of them gives up.
func addBriefHolders(faults []fault, moves []move) {
	for i := range faults {
		f := &faults[i]
		for _, m := range moves {
			if !m.gained && !m.at.Before(f.begin) && !m.at.After(f.end.Add(settleLimit)) {
				f.briefHolders = append(f.briefHolders, m.node)
			}
		}
	}
}

// holders returns the nodes that held a VIP during the fault.
func (f fault) holders() []string {
	return append([]string{f.node.Name, f.next.Name}, f.briefHolders...)
}

// String identifies the fault in a message.
func (f fault) String() string {
	return fmt.Sprintf("%s on %s, %s to %s", f.title, f.node.Name, f.begin.Format(clock), f.end.Format(clock))
}

// explains reports whether a connection lived during the fault. One that was opened after its
// end must succeed.
func (f fault) explains(c *connection) bool {
	return !c.opened.After(f.end) && !c.last.Before(f.begin)
}

// secondMaster is a moment between faults in which two nodes held a VIP: on a busy machine,
// keepalived misses advertisements and becomes master until it receives the next one.
type secondMaster struct {
	node         string // the one that gave up
	vip          netip.Addr
	gained, lost time.Time
}

// secondMasters returns the moments between the faults in which another node than the holder
// had a VIP. A node that keeps a VIP longer than settleLimit is a failure.
func secondMasters(moves []move, faults []fault) (all []secondMaster) {
	type key struct {
		node string
		vip  netip.Addr
	}
	gained := map[key]time.Time{}
	for _, m := range slices.SortedStableFunc(slices.Values(moves), func(a, b move) int { return a.at.Compare(b.at) }) {
		k := key{m.node, m.vip}
		since := gained[k]
		if m.gained {
			gained[k] = m.at
			continue
		}
		delete(gained, k)
		inFault := slices.ContainsFunc(faults, func(f fault) bool { return !m.at.Before(f.begin) && !m.at.After(f.end) })
		if !inFault && m.node != holderAt(m.at, faults) && m.at.Sub(since) <= settleLimit {
			all = append(all, secondMaster{m.node, m.vip, since, m.at})
		}
	}
	return all
}

// String is the cause of a connection.
func (m secondMaster) String() string {
	return fmt.Sprintf("%s was a second VRRP master, %s to %s", m.node, m.gained.Format(clock), m.lost.Format(clock))
}

// explains reports whether a connection to the VIP lived while two nodes held it. The service
// logs a change late, and a neighbour can have the wrong node for garpDelay.
func (m secondMaster) explains(c *connection) bool {
	return c.vip == m.vip && !c.opened.After(m.lost.Add(garpDelay)) && !c.last.Before(m.gained.Add(-garpDelay))
}

// insteadOf reports whether the client of a connection has used it instead of another one to
// the other address family: Go's net.Dialer connects to the second address if the first one
// has not answered in 300 ms, or if the client itself did not run, uses the connection that
// is there first, and closes the other one. It does not close one before the other is there.
func (c *connection) insteadOf(other *connection) bool {
	return other.abandoned && !failed(c) && !c.established.IsZero() && !c.established.After(other.last) &&
		c.node == other.node && c.vip.Is4() != other.vip.Is4() &&
		!c.opened.After(other.last) && !other.opened.After(c.last)
}

// holderAt returns the name of the node that held the VIPs at a time between the faults.
func holderAt(at time.Time, faults []fault) string {
	for _, f := range faults {
		if at.Before(f.end) {
			return f.node.Name
		}
	}
	if len(faults) == 0 {
		return ""
	}
	return faults[len(faults)-1].next.Name
}

// failed reports whether a client did not get the answer of the router: 200 of the solver, or
// 503 before the route exists.
func failed(c *connection) bool { return c.status != 200 && c.status != 503 }

// unanswered is a connection without an answer, and its cause.
type unanswered struct {
	connection

	holders []string // nodes that held the VIPs
	cause   string
	used    bool // a rejection has been attributed to it
}

func (c *unanswered) String() string { return fmt.Sprintf("%v (%s)", &c.connection, c.cause) }

// otherFamily is the cause of a connection that its client has given up for another one.
const otherFamily = "its client used the other address family"

// attributeConnections returns the failed connections with their causes: a fault, a second
// VRRP master, or a client that connects to both families (RFC 8305, section 5) and has used
// another connection. A failed connection without a cause is an error.
func attributeConnections(all []connection, faults []fault, masters []secondMaster) (failures []*unanswered, err error) {
	var errs []error
	chosen := map[int]bool{} // instead of another one, by the index in all
	for i := range all {
		c := &all[i]
		if !failed(c) {
			continue
		}
		if i := slices.IndexFunc(faults, func(f fault) bool { return f.explains(c) }); i >= 0 {
			failures = append(failures, &unanswered{connection: *c, holders: faults[i].holders(), cause: faults[i].title})
			continue
		}
		holder := holderAt(c.opened, faults)
		if i := slices.IndexFunc(masters, func(m secondMaster) bool { return m.explains(c) }); i >= 0 {
			failures = append(failures, &unanswered{connection: *c, holders: []string{holder, masters[i].node}, cause: masters[i].String()})
			continue
		}
		other := -1
		for j := range all {
			if all[j].insteadOf(c) && !chosen[j] {
				other = j
				break
			}
		}
		if other < 0 {
			errs = append(errs, fmt.Errorf("no fault explains the connection %v", c))
			continue
		}
		chosen[other] = true
		failures = append(failures, &unanswered{connection: *c, holders: []string{holder}, cause: otherFamily})
	}
	return failures, errors.Join(errs...)
}

// attributeInvalid has each invalid Challenge belong to another unanswered connection of the
// CA's node: one with the Challenge's token, or else one without a request. Two Orders for one
// name can share an authorization of the CA (RFC 8555, section 7.4), and then its token and
// its connection.
func attributeInvalid(all []observedChallenge, failures []*unanswered, ca string) error {
	all = slices.DeleteFunc(slices.Clone(all), func(c observedChallenge) bool { return c.invalid.IsZero() })
	slices.SortFunc(all, func(a, b observedChallenge) int {
		return cmp.Or(a.created.Compare(b.created), a.invalid.Compare(b.invalid), cmp.Compare(a.token, b.token))
	})
	tokens := map[*unanswered]string{} // of the Challenges that a connection has made invalid
	attribute := func(c observedChallenge, token string) bool {
		i := slices.IndexFunc(failures, func(one *unanswered) bool {
			return (tokens[one] == "" || tokens[one] == c.token) && one.node == ca && one.cause != otherFamily &&
				one.token == token && one.opened.After(c.created.Add(-time.Second)) && one.opened.Before(c.invalid)
		})
		if i >= 0 {
			tokens[failures[i]] = c.token
		}
		return i >= 0
	}
	all = slices.DeleteFunc(all, func(c observedChallenge) bool { return attribute(c, c.token) })
	var errs []error
	for _, c := range all {
		if !attribute(c, "") {
			errs = append(errs, fmt.Errorf("no fault explains the invalid Challenge for %s at %s: %s", c.name, c.invalid.Format(clock), c.reason))
		}
	}
	return errors.Join(errs...)
}

// attributeUnfinished returns how many Challenges were neither valid nor invalid. cert-manager
// removes one like that only with its Order, after it has replaced the CertificateRequest.
// orders are those that exist.
func attributeUnfinished(all []observedChallenge, orders map[types.UID]bool) (replaced int, err error) {
	var errs []error
	for _, c := range all {
		switch {
		case !c.valid.IsZero() || !c.invalid.IsZero():
		case c.order == "" || orders[c.order]:
			errs = append(errs, fmt.Errorf("the Challenge for %s, created at %s, was never valid, and its Order was not replaced", c.name, c.created.Format(clock)))
		default:
			replaced++
		}
	}
	return replaced, errors.Join(errs...)
}

// rejection is one rejected request in a journal.
type rejection struct {
	node   string
	at     time.Time // of the summary, which covers a minute
	reason string
}

// summaryDelay is the time between a connection and the summary that has its rejection: a
// summary covers a minute. On a busy machine, the rejection itself is late: limits.headTimeout
// is 5 s, and the proxy process and its reports have to run.
const summaryDelay = 2 * time.Minute

// attributeRejections has each rejection belong to another connection without an answer whose
// VIP was on the same node: one whose VIP moved away after its handshake cannot deliver its
// head, and one that its client gave up has none. Only head-timeout and client-gone can follow
// from this. The service itself requests a VIP that it
// holds, and cannot close the connection if the VIP leaves meanwhile. It returns a line for
// each rejection.
func attributeRejections(rejections []rejection, failures []*unanswered, lost []move) (lines []string, err error) {
	var errs []error
	lost = slices.Clone(lost)
	for _, r := range rejections {
		if r.reason != "head-timeout" && r.reason != "client-gone" {
			errs = append(errs, fmt.Errorf("a fault does not cause the rejection (%s) on %s before %s", r.reason, r.node, r.at.Format(clock)))
			continue
		}
		covers := func(at time.Time) bool { return !at.After(r.at) && at.After(r.at.Add(-summaryDelay)) }
		if i := slices.IndexFunc(failures, func(c *unanswered) bool {
			return !c.used && slices.Contains(c.holders, r.node) && !c.established.IsZero() && covers(c.opened)
		}); i >= 0 {
			failures[i].used = true
			lines = append(lines, fmt.Sprintf("%s on %s: %v", r.reason, r.node, failures[i]))
			continue
		}
		if i := slices.IndexFunc(lost, func(l move) bool { return l.node == r.node && covers(l.at) }); i >= 0 {
			lines = append(lines, fmt.Sprintf("%s on %s: request of the service to %s, which left at %s", r.reason, r.node, lost[i].vip, lost[i].at.Format(clock)))
			lost = slices.Delete(lost, i, i+1)
			continue
		}
		errs = append(errs, fmt.Errorf("no fault explains the rejection (%s) on %s in the two minutes before %s", r.reason, r.node, r.at.Format(clock)))
	}
	return lines, errors.Join(errs...)
}

// move is the arrival or the loss of a VIP in a journal.
type move struct {
	node   string
	at     time.Time
	vip    netip.Addr
	gained bool
}

// The journal's summary of rejected requests.
var (
	summaryTime  = regexp.MustCompile(`^time=(\S+) .* event=rejected `)
	summaryCount = regexp.MustCompile(` rejected_([a-z_]+)=([0-9]+)`)
)

// vipMove is the journal's line about a VIP that has arrived or left.
var vipMove = regexp.MustCompile(`(?m)^time=(\S+) .* event=vip-(gained|lost) vip=(\S+)`)

// moves returns the VIPs that have arrived or left, from the log of a node's service.
func moves(node, path string) (all []move, err error) {
	log, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the service's log: %w", err)
	}
	for _, m := range vipMove.FindAllStringSubmatch(string(log), -1) {
		at, timeErr := time.Parse(time.RFC3339Nano, m[1])
		vip, vipErr := netip.ParseAddr(m[3])
		if err := errors.Join(timeErr, vipErr); err != nil {
			return nil, fmt.Errorf("read the service's log: %w", err)
		}
		all = append(all, move{node, at, vip, m[2] == "gained"})
	}
	return all, nil
}

// rejections returns the rejected requests in the log of a node's service.
func rejections(node, path string) (all []rejection, err error) {
	log, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the service's log: %w", err)
	}
	for line := range strings.Lines(string(log)) {
		m := summaryTime.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, m[1])
		if err != nil {
			return nil, fmt.Errorf("read the service's log: %w", err)
		}
		for _, count := range summaryCount.FindAllStringSubmatch(line, -1) {
			n, err := strconv.Atoi(count[2])
			if err != nil {
				return nil, fmt.Errorf("read the service's log: %w", err)
			}
			for range n {
				all = append(all, rejection{node, at, strings.ReplaceAll(count[1], "_", "-")})
			}
		}
	}
	return all, nil
}
