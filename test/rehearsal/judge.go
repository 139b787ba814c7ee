// SPDX-License-Identifier: Apache-2.0

package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/cluster"
)

// judge compares what the clients have received with the records of the router and of the
// service, attributes each difference to a fault, and returns the figures.
func (s *Scale) judge(ctx context.Context) (string, error) {
	end := s.endCapture
	s.endCapture = nil
	if err := end(); err != nil {
		return "", err
	}
	all := s.capture.connections(s.lab.API.Both()...)
	challenges := s.progress.observed()
	orders, err := s.orders(ctx)
	if err != nil {
		return "", err
	}
	var rejected []rejection
	var moved []move
	for _, m := range s.lab.ControlPlane {
		one, rejectedErr := rejections(m.Name, s.services[m.Index].Log)
		ofNode, movesErr := moves(m.Name, s.services[m.Index].Log)
		if err := errors.Join(rejectedErr, movesErr); err != nil {
			return "", err
		}
		rejected, moved = append(rejected, one...), append(moved, ofNode...)
	}
	addBriefHolders(s.faults, moved)
	failures, connectionErr := attributeConnections(all, s.faults, secondMasters(moved, s.faults))
	lost := slices.DeleteFunc(moved, func(m move) bool { return m.gained })
	lines, rejectionErr := attributeRejections(rejected, failures, lost)
	replaced, unfinishedErr := attributeUnfinished(challenges, orders)
	if err := errors.Join(connectionErr, rejectionErr, unfinishedErr, s.compareRouter(all, failures), s.checkChallenges(challenges, failures)); err != nil {
		return "", fmt.Errorf("faults:\n%v\nconnections without an answer:\n%s%w", s.faults, describeUnanswered(failures), err)
	}
	table, err := s.figures(all, failures, challenges, len(rejected), replaced)
	return fmt.Sprintf("each of %d connections without an answer and %d rejections has a cause\n%s%s%s",
		len(failures), len(rejected), table, describeUnanswered(failures), strings.Join(lines, "\n")), err
}

func describeUnanswered(failures []*unanswered) string {
	var b strings.Builder
	for _, c := range failures {
		fmt.Fprintln(&b, c)
	}
	return b.String()
}

// orders returns the Orders that exist.
func (s *Scale) orders(ctx context.Context) (map[types.UID]bool, error) {
	list, err := s.cluster.CertManager.AcmeV1().Orders(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the Orders: %w", err)
	}
	all := map[types.UID]bool{}
	for i := range list.Items {
		all[list.Items[i].UID] = true
	}
	return all, nil
}

// checkChallenges holds that a Challenge of each name has become valid, and that a connection
// of the CA, which does not try again, remained without an answer for each invalid one.
func (s *Scale) checkChallenges(all []observedChallenge, failures []*unanswered) error {
	errs := []error{attributeInvalid(all, failures, s.lab.Internet.Name)}
	names, invalid := map[string]bool{}, 0
	for _, c := range all {
		names[c.name] = names[c.name] || !c.valid.IsZero()
		if !c.invalid.IsZero() {
			invalid++
		}
	}
	if failed := s.progress.failedIssuances(); failed != invalid {
		errs = append(errs, fmt.Errorf("%d issuances have failed, and %d Challenges were invalid", failed, invalid))
	}
	for name, valid := range names {
		if !valid {
			errs = append(errs, fmt.Errorf("no Challenge for %s was valid", name))
		}
	}
	// The CA can reuse an authorization for the second Certificate of a name.
	if want := s.Certificates - s.Twice; len(names) != want {
		errs = append(errs, fmt.Errorf("there were Challenges for %d names, want %d", len(names), want))
	}
	return errors.Join(errs...)
}

// routerRequest is a line of the router's log about a challenge.
var routerRequest = regexp.MustCompile(` [0-9]+/[0-9-]+/[0-9-]+/[0-9-]+/[0-9-]+ ([0-9]{3}) .*/\.well-known/acme-challenge/(\S+) `)

// routed returns how many requests with a token the routers have answered with a status.
func routed(c *cluster.Cluster) (map[answer]int, error) {
	all := map[answer]int{}
	for _, w := range c.Lab.Routers {
		log, err := w.RouterLog()
		if err != nil {
			return nil, err
		}
		for _, m := range routerRequest.FindAllStringSubmatch(log, -1) {
			status, err := strconv.Atoi(m[1])
			if err != nil {
				return nil, fmt.Errorf("read the router's log: %w", err)
			}
			all[answer{m[2], status}]++
		}
	}
	return all, nil
}

// answer is the status of a response to the request with a token.
type answer struct {
	token  string
	status int
}

// compareRouter holds that each response of the router has reached its client, and each
// response comes from the router. Only the response of a connection without an answer can be
// missing.
func (s *Scale) compareRouter(all []connection, failures []*unanswered) error {
	sent, err := routed(s.cluster)
	if err != nil {
		return err
	}
	received := map[answer]int{}
	for _, c := range all {
		if !failed(&c) {
			received[answer{c.token, c.status}]++
		}
	}
	missing := map[string]int{}
	for _, c := range failures {
		missing[c.token]++
	}
	var errs []error
	for a, n := range received {
		if n > sent[a] {
			errs = append(errs, fmt.Errorf("clients received status %d for %s %d times, the router sent it %d times", a.status, a.token, n, sent[a]))
		}
	}
	for _, c := range s.progress.observed() {
		lost := 0
		for _, status := range []int{200, 503} {
			a := answer{c.token, status}
			lost += max(0, sent[a]-received[a])
		}
		if lost > missing[c.token] {
			errs = append(errs, fmt.Errorf("clients did not receive %d responses for %s, and %d connections are without an answer", lost, c.token, missing[c.token]))
		}
	}
	return errors.Join(errs...)
}

// figures returns the table of results.
func (s *Scale) figures(all []connection, failures []*unanswered, challenges []observedChallenge, rejected, replaced int) (string, error) {
	var answered int
	var inRequests time.Duration // from the head to the response
	byToken := map[string]time.Duration{}
	for _, c := range all {
		if c.status != 0 {
			answered++
			inRequests += c.answered.Sub(c.requested)
			byToken[c.token] += c.answered.Sub(c.requested)
		}
	}
	var lifetimes, shares []time.Duration
	last := s.began
	invalid := 0
	for _, c := range challenges {
		if !c.invalid.IsZero() {
			invalid++
		}
		if c.valid.IsZero() {
			continue
		}
		lifetimes, shares = append(lifetimes, c.valid.Sub(c.created)), append(shares, byToken[c.token])
		if c.valid.After(last) {
			last = c.valid
		}
	}
	checks, err := selfChecks(s.certManagerLog(), "")
	if err != nil {
		return "", err
	}
	repeated := map[int]int{} // by status of the response, 0 without one
	for _, c := range checks {
		if c.status != 200 {
			repeated[c.status]++
		}
	}
	var processor time.Duration
	for _, one := range s.ended {
		processor += one.ProcessorTime()
	}
	most, _ := s.progress.schedule()
	memory := s.footprint()
	wall := last.Sub(s.began)
	lifetime, share := median(lifetimes), median(shares)
	byFault := 0
	for _, status := range slices.Sorted(maps.Keys(repeated)) {
		if status != 503 {
			byFault += repeated[status]
		}
	}
	rows := [][2]string{
		{"Certificates, names, Challenges", fmt.Sprintf("%d, %d, %d", s.Certificates, s.Certificates-s.Twice, len(challenges))},
		{"Challenges invalid because of a fault", strconv.Itoa(invalid)},
		{"Challenges removed with a replaced CertificateRequest", strconv.Itoa(replaced)},
		{"time to the last valid Challenge", fmt.Sprintf("%.0f s", wall.Seconds())},
		{"most Challenges in progress", fmt.Sprintf("%d of %d", most, maxChallenges)},
		{"requests answered, per Challenge", fmt.Sprintf("%d, %.1f", answered, float64(answered)/float64(len(challenges)))},
		{"self checks repeated because of a fault", strconv.Itoa(byFault)},
		{"self checks repeated because the route was missing", strconv.Itoa(repeated[503])},
		{"connections without an answer, rejections", fmt.Sprintf("%d, %d", len(failures), rejected)},
		{"median time of a Challenge until valid", fmt.Sprintf("%.0f s", lifetime.Seconds())},
		{"of it in the service, router and solver", fmt.Sprintf("%.1f ms (%.3f %%)", share.Seconds()*1e3, 100*share.Seconds()/lifetime.Seconds())},
		{"median and 99th percentile of a response", responseTimes(all)},
		{"processor time of all services", fmt.Sprintf("%.1f s (%.1f %% of a core, %.1f ms per answered request)",
			processor.Seconds(), 100*processor.Seconds()/wall.Seconds(), processor.Seconds()*1e3/float64(answered))},
		{"most memory of a service", memory.String()},
	}
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "%-56s%s\n", r[0], r[1])
	}
	return b.String(), nil
}

// responseTimes returns the median and the 99th percentile of the time from the request to
// the first byte of the response.
func responseTimes(all []connection) string {
	var times []time.Duration
	for _, c := range all {
		if c.status != 0 {
			times = append(times, c.answered.Sub(c.requested))
		}
	}
	if len(times) == 0 {
		return "no response"
	}
	slices.Sort(times)
	return fmt.Sprintf("%.1f ms, %.1f ms", times[len(times)/2].Seconds()*1e3, times[len(times)*99/100].Seconds()*1e3)
}

func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(all))[len(all)/2]
}
