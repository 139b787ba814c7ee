// SPDX-License-Identifier: Apache-2.0

package rehearsal

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// fault is one injected fault.
type fault struct {
	title      string
	node       *lab.ControlPlaneNode // held the VIPs at the beginning
	next       *lab.ControlPlaneNode // holds them at the end
	begin, end time.Time             // end: the service serves the VIPs again
	brief      []string              // other nodes that held a VIP for a moment
}

// addBriefHolders adds the nodes to each fault that lost a VIP in it: when VIPs move on a busy
// machine, two nodes can become master (RFC 9568, section 6.4.3), and one of them gives up.
func addBriefHolders(faults []fault, lost []lostVIP) {
	for i := range faults {
		f := &faults[i]
		for _, l := range lost {
			if !l.at.Before(f.begin) && (i+1 == len(faults) || l.at.Before(faults[i+1].begin)) {
				f.brief = append(f.brief, l.node)
			}
		}
	}
}

// holders returns the nodes that held a VIP during the fault.
func (f fault) holders() []string { return append([]string{f.node.Name, f.next.Name}, f.brief...) }

// String identifies the fault in a message.
func (f fault) String() string {
	return fmt.Sprintf("%s on %s, %s to %s", f.title, f.node.Name, f.begin.Format(clock), f.end.Format(clock))
}

// explains reports whether a connection lived during the fault. One that was opened after its
// end must succeed.
func (f fault) explains(c *connection) bool {
	return !c.opened.After(f.end) && !c.last.Before(f.begin)
}

// insteadOf reports whether the client of a connection has used it instead of another one to
// the other address family: Go's net.Dialer connects to the second address if the first one
// has not answered in 300 ms, or if the client itself did not run, uses the connection that
// is there first, and closes the other one.
func (c *connection) insteadOf(other *connection) bool {
	return other.left && !failed(c) && c.node == other.node && c.vip.Is4() != other.vip.Is4() &&
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

// cut is a connection without an answer, and its cause.
type cut struct {
	connection

	holders []string // nodes that held the VIPs
	cause   string
	used    bool // a rejection has been attributed to it
}

func (c *cut) String() string { return fmt.Sprintf("%v (%s)", &c.connection, c.cause) }

// otherFamily is the cause of a connection that its client has given up for another one.
const otherFamily = "its client used the other address family"

// attributeConnections returns the failed connections with their causes: a fault, or a client
// that connects to both families (RFC 8305, section 5) and has used another connection. A
// failed connection without a cause is an error.
func attributeConnections(all []connection, faults []fault) (cuts []*cut, err error) {
	var errs []error
	chosen := map[flow]bool{} // instead of another one
	for i := range all {
		c := &all[i]
		if !failed(c) {
			continue
		}
		if i := slices.IndexFunc(faults, func(f fault) bool { return f.explains(c) }); i >= 0 {
			cuts = append(cuts, &cut{connection: *c, holders: faults[i].holders(), cause: faults[i].title})
			continue
		}
		other := slices.IndexFunc(all, func(o connection) bool { return o.insteadOf(c) && !chosen[o.flow()] })
		if other < 0 {
			errs = append(errs, fmt.Errorf("no fault explains the connection %v", c))
			continue
		}
		chosen[all[other].flow()] = true
		cuts = append(cuts, &cut{connection: *c, holders: []string{holderAt(c.opened, faults)}, cause: otherFamily})
	}
	return cuts, errors.Join(errs...)
}

// attributeInvalid has each invalid Challenge belong to another connection that a fault has
// cut, of the CA's node: one with the Challenge's token, or one without a request.
func attributeInvalid(all []observedChallenge, cuts []*cut, ca string) error {
	var errs []error
	used := map[*cut]bool{}
	for _, c := range all {
		if c.invalid.IsZero() {
			continue
		}
		i := slices.IndexFunc(cuts, func(one *cut) bool {
			return !used[one] && one.node == ca && one.cause != otherFamily &&
				(one.token == "" || one.token == c.token) && one.opened.After(c.created.Add(-time.Second)) && one.opened.Before(c.invalid)
		})
		if i < 0 {
			errs = append(errs, fmt.Errorf("no fault explains the invalid Challenge for %s at %s: %s", c.name, c.invalid.Format(clock), c.reason))
			continue
		}
		used[cuts[i]] = true
	}
	return errors.Join(errs...)
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
// head, and one that its client gave up has none. The service itself requests a VIP that it
// holds, and cannot close the connection if the VIP leaves meanwhile. It returns a line for
// each rejection.
func attributeRejections(rejections []rejection, cuts []*cut, lost []lostVIP) (lines []string, err error) {
	var errs []error
	lost = slices.Clone(lost)
	for _, r := range rejections {
		covers := func(at time.Time) bool { return !at.After(r.at) && at.After(r.at.Add(-summaryDelay)) }
		if i := slices.IndexFunc(cuts, func(c *cut) bool {
			return !c.used && slices.Contains(c.holders, r.node) && !c.established.IsZero() && covers(c.opened)
		}); i >= 0 {
			cuts[i].used = true
			lines = append(lines, fmt.Sprintf("%s on %s: %v", r.reason, r.node, cuts[i]))
			continue
		}
		if i := slices.IndexFunc(lost, func(l lostVIP) bool { return l.node == r.node && covers(l.at) }); i >= 0 {
			lines = append(lines, fmt.Sprintf("%s on %s: request of the service to %s, which left at %s", r.reason, r.node, lost[i].vip, lost[i].at.Format(clock)))
			lost = slices.Delete(lost, i, i+1)
			continue
		}
		errs = append(errs, fmt.Errorf("no fault explains the rejection (%s) on %s in the minute before %s", r.reason, r.node, r.at.Format(clock)))
	}
	return lines, errors.Join(errs...)
}

// lostVIP is the loss of a VIP in a journal.
type lostVIP struct {
	node string
	at   time.Time
	vip  string
}

// The journal's summary of rejected requests.
var (
	summaryTime  = regexp.MustCompile(`^time=(\S+) .* event=rejected `)
	summaryCount = regexp.MustCompile(` rejected_([a-z_]+)=([0-9]+)`)
)

// vipLost is the journal's line about a VIP that has left.
var vipLost = regexp.MustCompile(`(?m)^time=(\S+) .* event=vip-lost vip=(\S+)`)

// lostVIPs returns the VIPs that have left a node, from the log of its service.
func lostVIPs(node, path string) (all []lostVIP, err error) {
	log, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the service's log: %w", err)
	}
	for _, m := range vipLost.FindAllStringSubmatch(string(log), -1) {
		at, err := time.Parse(time.RFC3339Nano, m[1])
		if err != nil {
			return nil, fmt.Errorf("read the service's log: %w", err)
		}
		all = append(all, lostVIP{node, at, m[2]})
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
