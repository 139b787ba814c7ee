// SPDX-License-Identifier: Apache-2.0

package rehearsal

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// Requests of a challenge that succeeds.
const (
	perspectives = 3 // Pebble's validations (va/va.go, concurrentValidations)
	passes       = lab.SelfCheckPasses
)

// compareRecords compares what cert-manager, the router and the service have recorded of the
// last challenge, request by request.
func (r *Rehearsal) compareRecords(ctx context.Context) (string, error) {
	challenge, states := r.records.challenge()
	token := challenge.Spec.Token
	holder, err := r.holder(ctx)
	if err != nil {
		return "", err
	}
	service := r.services[holder.Index]
	seen, err := service.Await(ctx, "the requests of the challenge", func(s lab.Status) error {
		if n := len(statuses(s, "pebble", token)); n != perspectives {
			return fmt.Errorf("%d validations", n)
		}
		return nil
	})
	if err != nil {
		return "", err
	}

	checks, err := selfChecks(r.certManagerLog(), token)
	if err != nil {
		return "", err
	}
	var answered []int // the self checks with a response
	for _, c := range checks {
		if c.status != 0 {
			answered = append(answered, c.status)
		}
	}
	if got := statuses(seen, "cert-manager", token); !slices.Equal(got, answered) {
		return "", fmt.Errorf("self checks: %v in cert-manager's log, %v in the service's status", answered, got)
	}
	if n := len(answered); n < passes || slices.ContainsFunc(answered[n-passes:],
		func(status int) bool { return status != 200 }) {
		return "", fmt.Errorf("self checks: %v, want %d times 200 at the end", answered, passes)
	}
	validations := statuses(seen, "pebble", token)
	if !slices.Equal(validations, []int{200, 200, 200}) {
		return "", fmt.Errorf("the CA's validations got %v", validations)
	}
	routed, err := routerStatuses(r.cluster, token)
	if err != nil {
		return "", err
	}
	forwarded := slices.Concat(answered, validations, r.examined[token])
	if slices.Sort(routed); !slices.Equal(routed, slices.Sorted(slices.Values(forwarded))) {
		return "", fmt.Errorf("the router answered %v, the service %v", routed, forwarded)
	}
	if got := states[len(states)-1]; got != "valid" {
		return "", fmt.Errorf("the Challenge had the states %v", states)
	}
	lines, err := challengeLines(service.Log, token[:8])
	if err != nil {
		return "", err
	}
	if len(lines) == 0 {
		return "", fmt.Errorf("the journal of %s has no line of challenge %s", holder.Name, token[:8])
	}
	return fmt.Sprintf(
		"%d self checks and %d validations in cert-manager's, the router's and the service's records; Challenge: %s\n%s",
		len(answered), len(validations), strings.Join(states, ", "), strings.Join(lines, "\n")), nil
}

// statuses returns the status codes of a kind of client for a token, in order.
func statuses(s lab.Status, kind, token string) (all []int) {
	for _, c := range s.Challenges.Recent {
		if c.ClientKind == kind && strings.HasPrefix(token, c.TokenPrefix) {
			all = append(all, c.Status)
		}
	}
	return all
}

// message is the text of a line of the service's log.
var message = regexp.MustCompile(`msg="((?:[^"\\]|\\.)*)"`)

// challengeLines returns the texts of the lines about challenges that contain a text.
func challengeLines(path, text string) (all []string, err error) {
	log, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the service's log: %w", err)
	}
	for line := range strings.Lines(string(log)) {
		if m := message.FindStringSubmatch(line); m != nil && strings.Contains(line, "event=challenge") &&
			strings.Contains(line, text) {
			all = append(all, strings.ReplaceAll(m[1], `\"`, `"`))
		}
	}
	return all, nil
}
