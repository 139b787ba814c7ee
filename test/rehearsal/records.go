// SPDX-License-Identifier: Apache-2.0

package rehearsal

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	cmacme "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/client/informers/externalversions"
	"k8s.io/client-go/tools/cache"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/cluster"
)

// transition is a change of the state of an object.
type transition struct {
	at    time.Time
	kind  string // Certificate, Order or Challenge
	name  string
	state string
}

// recorder keeps the transitions of cert-manager's objects. cert-manager deletes a
// Challenge soon after it is valid, so only a watch sees its states.
type recorder struct {
	mu          sync.Mutex
	last        map[string]string // by kind and name
	transitions []transition
	challenges  []*cmacme.Challenge // the first version of each
}

// record watches the objects until ctx ends.
func record(ctx context.Context, c *cluster.Cluster) (*recorder, error) {
	r := &recorder{last: map[string]string{}}
	factory := externalversions.NewSharedInformerFactory(c.CertManager, 0)
	for _, informer := range []cache.SharedIndexInformer{
		factory.Certmanager().V1().Certificates().Informer(), factory.Acme().V1().Orders().Informer(), factory.Acme().V1().Challenges().Informer(),
	} {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: r.see, UpdateFunc: func(_, object any) { r.see(object) },
		}); err != nil {
			return nil, fmt.Errorf("watch cert-manager's objects: %w", err)
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return r, nil
}

// see takes a version of an object.
func (r *recorder) see(object any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch o := object.(type) {
	case *cmapi.Certificate:
		r.add("Certificate", o.Name, certificateState(o))
	case *cmacme.Order:
		r.add("Order", o.Name, string(o.Status.State))
	case *cmacme.Challenge:
		if !slices.ContainsFunc(r.challenges, func(c *cmacme.Challenge) bool { return c.UID == o.UID }) {
			r.challenges = append(r.challenges, o)
		}
		r.add("Challenge", o.Name, challengeState(o))
	}
}

func (r *recorder) add(kind, name, state string) {
	key := kind + " " + name
	if state != "" && r.last[key] != state {
		r.last[key] = state
		r.transitions = append(r.transitions, transition{time.Now(), kind, name, state})
	}
}

// certificateState returns "issuing", "ready" or "waiting".
func certificateState(c *cmapi.Certificate) string {
	state := "waiting"
	for _, condition := range c.Status.Conditions {
		switch {
		case condition.Type == cmapi.CertificateConditionIssuing && condition.Status == "True":
			return "issuing"
		case condition.Type == cmapi.CertificateConditionReady && condition.Status == "True":
			state = "ready"
		}
	}
	return state
}

// challengeState returns the state of a Challenge, and for a pending one how far it is.
func challengeState(c *cmacme.Challenge) string {
	if c.Status.State == cmacme.Pending && c.Status.Presented {
		return "presented"
	}
	return string(c.Status.State)
}

// states returns the states of an object in order.
func (r *recorder) states(kind, name string) (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.transitions {
		if t.kind == kind && t.name == name {
			all = append(all, t.state)
		}
	}
	return all
}

// since returns the transitions from a time on.
func (r *recorder) since(begin time.Time) []transition {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.transitions, func(t transition) bool { return !t.at.Before(begin) })
	if i < 0 {
		return nil
	}
	return slices.Clone(r.transitions[i:])
}

// challenge returns the last Challenge that succeeded, or else the last one that was created.
func (r *recorder) challenge() *cmacme.Challenge {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.challenges) == 0 {
		return nil
	}
	// cert-manager can begin another order right after a renewal, before it has seen the new certificate.
	for _, c := range slices.Backward(r.challenges) {
		if r.last["Challenge "+c.Name] == string(cmacme.Valid) {
			return c
		}
	}
	return r.challenges[len(r.challenges)-1]
}

// selfCheck is one request of cert-manager's self check.
type selfCheck struct {
	at     time.Time
	status int // 0 if there was no response
}

// The lines of cert-manager's log about a self check (pkg/issuer/acme/http/http.go,
// testReachability), after the header of klog.
var (
	klogLine  = regexp.MustCompile(`(?m)^[IWE]([0-9]{4} [0-9:.]+) +[0-9]+ \S+\] (.*)$`)
	badStatus = regexp.MustCompile(`^"received HTTP status code was not StatusOK \(200\)".* code=([0-9]+)`)
)

// selfChecks returns the requests of the self check for a token from cert-manager's log, or
// all of them for an empty one.
func selfChecks(path, token string) ([]selfCheck, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read cert-manager's log: %w", err)
	}
	var all []selfCheck
	for _, line := range klogLine.FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(line[2], token) {
			continue
		}
		// klog omits the year.
		at, err := time.ParseInLocation("2006 0102 15:04:05.000000", strconv.Itoa(time.Now().Year())+" "+line[1], time.Local)
		if err != nil {
			return nil, fmt.Errorf("read cert-manager's log: %w", err)
		}
		bad := badStatus.FindStringSubmatch(line[2])
		switch {
		case strings.HasPrefix(line[2], `"reachability test passed`):
			all = append(all, selfCheck{at, 200})
		case strings.HasPrefix(line[2], `"failed to perform self check GET request"`):
			all = append(all, selfCheck{at, 0})
		case bad != nil:
			status, err := strconv.Atoi(bad[1])
			if err != nil {
				return nil, fmt.Errorf("read cert-manager's log: %w", err)
			}
			all = append(all, selfCheck{at, status})
		}
	}
	return all, nil
}

// countLines returns how many lines of a file contain all texts.
func countLines(path string, texts ...string) (n int, err error) {
	file, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read a log: %w", err)
	}
	for line := range strings.Lines(string(file)) {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			n++
		}
	}
	return n, nil
}

// routerStatus is the status code in a line of the router's log.
var routerStatus = regexp.MustCompile(` [0-9]+/[0-9-]+/[0-9-]+/[0-9-]+/[0-9-]+ ([0-9]{3}) `)

// routerStatuses returns the status codes of the requests for a token in the routers' logs.
func routerStatuses(c *cluster.Cluster, token string) (all []int, err error) {
	for _, w := range c.Lab.Routers {
		log, err := w.RouterLog()
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(log) {
			match := routerStatus.FindStringSubmatch(line)
			if match == nil || !strings.Contains(line, token) {
				continue
			}
			status, err := strconv.Atoi(match[1])
			if err != nil {
				return nil, fmt.Errorf("read the router's log: %w", err)
			}
			all = append(all, status)
		}
	}
	return all, nil
}
