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

// recorder keeps the Challenges and their states. cert-manager deletes a Challenge soon after it is
// valid, so only a watch sees its states.
type recorder struct {
	mu         sync.Mutex
	states     map[string][]string // by the name of the Challenge
	challenges []*cmacme.Challenge // the first version of each
}

// observe calls see with each version of the objects, and of others, until ctx ends.
func observe(ctx context.Context, c *cluster.Cluster, see func(object any)) error {
	factory := externalversions.NewSharedInformerFactory(c.CertManager, 0)
	for _, informer := range []cache.SharedIndexInformer{
		factory.Certmanager().V1().Certificates().Informer(), factory.Acme().V1().Challenges().Informer(),
	} {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: see, UpdateFunc: func(_, object any) { see(object) },
		}); err != nil {
			return fmt.Errorf("watch cert-manager's objects: %w", err)
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return nil
}

// see takes a version of an object.
func (r *recorder) see(object any) {
	c, is := object.(*cmacme.Challenge)
	if !is {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.ContainsFunc(r.challenges, func(one *cmacme.Challenge) bool { return one.UID == c.UID }) {
		r.challenges = append(r.challenges, c)
	}
	state := string(c.Status.State)
	if c.Status.State == cmacme.Pending && c.Status.Presented {
		state = "presented"
	}
	if state != "" && r.last(c.Name) != state {
		r.states[c.Name] = append(r.states[c.Name], state)
	}
}

// last returns the last state of a Challenge. It requires mu.
func (r *recorder) last(name string) string {
	if all := r.states[name]; len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
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

// challenge returns the last Challenge that succeeded, or else the last one that was created, and
// its states in order.
func (r *recorder) challenge() (c *cmacme.Challenge, states []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// cert-manager can begin another order right after a renewal, before it has seen the new certificate.
	for _, one := range slices.Backward(r.challenges) {
		if c == nil || r.last(one.Name) == string(cmacme.Valid) {
			c = one
		}
		if r.last(one.Name) == string(cmacme.Valid) {
			break
		}
	}
	return c, slices.Clone(r.states[c.Name])
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
