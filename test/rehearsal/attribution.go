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
	begin, end time.Time             // end: the service serves the VIPs again
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

// failed reports whether a client did not get the answer of the router: 200 of the solver, or
// 503 before the route exists.
func failed(c *connection) bool { return c.status != 200 && c.status != 503 }

// cut is a connection that failed because of a fault.
type cut struct {
	connection

	fault fault
	used  bool // a rejection has been attributed to it
}

// attributeConnections returns the failed connections with their faults. A failed connection
// that no fault explains is an error.
func attributeConnections(all []connection, faults []fault) (cuts []*cut, err error) {
	var errs []error
	for _, c := range all {
		if !failed(&c) {
			continue
		}
		i := slices.IndexFunc(faults, func(f fault) bool { return f.explains(&c) })
		if i < 0 {
			errs = append(errs, fmt.Errorf("no fault explains the connection %v", &c))
			continue
		}
		cuts = append(cuts, &cut{connection: c, fault: faults[i]})
	}
	return cuts, errors.Join(errs...)
}

// rejection is one rejected request in a journal.
type rejection struct {
	node   string
	at     time.Time // of the summary, which covers a minute
	reason string
}

const (
	// summaryWindow is the time that a summary of the journal covers.
	summaryWindow = time.Minute
	// headTimeout is the default of limits.headTimeout: the service rejects a connection at
	// the latest so long after it was opened.
	headTimeout = 5 * time.Second
)

// attributeRejections has each rejection belong to another connection that a fault on the same
// node has cut: one whose VIP moved away after its handshake cannot deliver its head, and one
// that its client gave up has none. It returns a line for each, with the client's address.
func attributeRejections(rejections []rejection, cuts []*cut) (lines []string, err error) {
	var errs []error
	for _, r := range rejections {
		i := slices.IndexFunc(cuts, func(c *cut) bool {
			return !c.used && c.fault.node.Name == r.node && !c.established.IsZero() &&
				!c.opened.After(r.at) && c.opened.After(r.at.Add(-summaryWindow-headTimeout))
		})
		if i < 0 {
			errs = append(errs, fmt.Errorf("no fault explains the rejection (%s) on %s in the minute before %s", r.reason, r.node, r.at.Format(clock)))
			continue
		}
		cuts[i].used = true
		lines = append(lines, fmt.Sprintf("%s on %s: %v (%s)", r.reason, r.node, &cuts[i].connection, cuts[i].fault.title))
	}
	return lines, errors.Join(errs...)
}

// The journal's summary of rejected requests.
var (
	summaryTime  = regexp.MustCompile(`^time=(\S+) .* event=rejected `)
	summaryCount = regexp.MustCompile(` rejected_([a-z_]+)=([0-9]+)`)
)

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
