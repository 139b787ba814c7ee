// SPDX-License-Identifier: Apache-2.0

package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	cmacme "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/cert-manager/cert-manager/pkg/client/informers/externalversions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/cluster"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// maxChallenges is cert-manager's default of --max-concurrent-challenges.
const maxChallenges = 60

// target is what cert-manager's scheduler challenges only once at a time.
type target struct {
	name string
	kind cmacme.ACMEChallengeType
}

// observedChallenge is what the watch has seen of a Challenge.
type observedChallenge struct {
	target

	token      string
	created    time.Time // in whole seconds
	valid      time.Time // when the watch has seen it
	invalid    time.Time // the same: the CA did not get the answer
	reason     string    // why
	order      types.UID
	processing bool
}

// progress observes each version of the Challenges and the state of the Certificates.
type progress struct {
	changed chan struct{} // something has happened; capacity 1

	mu         sync.Mutex
	ready      map[string]bool
	waiting    map[string]string // conditions of the Certificates that have not been ready
	challenges map[types.UID]*observedChallenge
	current    map[types.UID]bool // Challenges that exist
	running    int                // Challenges with status.processing
	most       int
	attempts   map[string]int // failed issuances of each Certificate
	violations []string       // of the scheduler
	failure    error          // of a Challenge, a Certificate or the watch
}

// watchProgress observes until ctx ends.
func watchProgress(ctx context.Context, c *cluster.Cluster) (*progress, error) {
	p := &progress{
		changed: make(chan struct{}, 1), ready: map[string]bool{}, waiting: map[string]string{}, attempts: map[string]int{},
		challenges: map[types.UID]*observedChallenge{}, current: map[types.UID]bool{},
	}
	// An informer can skip versions when it lists again; a watch delivers each one, or ends.
	client := c.CertManager.AcmeV1().Challenges(metav1.NamespaceAll)
	existing, err := client.List(ctx, metav1.ListOptions{})
	if err == nil && len(existing.Items) > 0 {
		err = fmt.Errorf("%d exist", len(existing.Items))
	}
	if err != nil {
		return nil, fmt.Errorf("list the Challenges: %w", err)
	}
	versions, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: existing.ResourceVersion})
	if err != nil {
		return nil, fmt.Errorf("watch the Challenges: %w", err)
	}
	go func() {
		for e := range versions.ResultChan() {
			p.seeChallenge(e)
		}
		if ctx.Err() == nil {
			p.fail(errors.New("the watch of the Challenges has ended"))
		}
	}()
	factory := externalversions.NewSharedInformerFactory(c.CertManager, 0)
	see := func(object any) {
		if crt, is := object.(*cmapi.Certificate); is && p.seeCertificate(crt) {
			go func() {
				if err := renewNow(ctx, c, crt.Name); err != nil && ctx.Err() == nil {
					p.fail(err)
				}
			}()
		}
	}
	if _, err := factory.Certmanager().V1().Certificates().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: see, UpdateFunc: func(_, object any) { see(object) },
	}); err != nil {
		return nil, fmt.Errorf("watch the Certificates: %w", err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return p, nil
}

// seeChallenge takes a version of a Challenge.
func (p *progress) seeChallenge(e watch.Event) {
	c, is := e.Object.(*cmacme.Challenge)
	if !is {
		p.fail(fmt.Errorf("the watch of the Challenges: %v", e.Object))
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.notify()
	one := p.challenges[c.UID]
	if one == nil {
		one = &observedChallenge{target: target{c.Spec.DNSName, c.Spec.Type}, token: c.Spec.Token, created: c.CreationTimestamp.Time}
		if owner := metav1.GetControllerOf(c); owner != nil {
			one.order = owner.UID
		}
		p.challenges[c.UID] = one
	}
	p.current[c.UID] = true
	one.processing = c.Status.Processing
	if e.Type == watch.Deleted {
		delete(p.current, c.UID)
		one.processing = false
	}
	switch c.Status.State {
	case cmacme.Valid:
		if one.valid.IsZero() {
			one.valid = time.Now()
		}
	case cmacme.Invalid:
		if one.invalid.IsZero() {
			one.invalid, one.reason = time.Now(), c.Status.Reason
		}
	case cmacme.Expired, cmacme.Errored:
		p.failure = errors.Join(p.failure, fmt.Errorf("%s: Challenge %s for %s is %s: %s",
			time.Now().Format(clock), c.Name, c.Spec.DNSName, c.Status.State, c.Status.Reason))
	case cmacme.Unknown, cmacme.Pending, cmacme.Processing, cmacme.Ready:
	}
	p.checkSchedule(c.ResourceVersion)
}

// checkSchedule holds the two promises of cert-manager's scheduler
// (pkg/controller/acmechallenges/scheduler) at one version. It requires mu.
func (p *progress) checkSchedule(version string) {
	p.running = 0
	targets := map[target]int{}
	for _, c := range p.challenges {
		if c.processing {
			p.running++
			targets[c.target]++
		}
	}
	p.most = max(p.most, p.running)
	if p.running > maxChallenges {
		p.violations = append(p.violations, fmt.Sprintf("version %s: %d Challenges in progress", version, p.running))
	}
	for t, n := range targets {
		if n > 1 {
			p.violations = append(p.violations, fmt.Sprintf("version %s: %d Challenges of type %s in progress for %s", version, n, t.kind, t.name))
		}
	}
}

// seeCertificate takes a version of a Certificate, and returns whether its issuance has failed.
func (p *progress) seeCertificate(c *cmapi.Certificate) (failed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.notify()
	if certificateState(c) == "ready" {
		p.ready[c.Name] = true
		delete(p.waiting, c.Name)
	} else if !p.ready[c.Name] {
		p.waiting[c.Name] = fmt.Sprintf("%+v", c.Status.Conditions)
	}
	if n := c.Status.FailedIssuanceAttempts; n != nil && *n > p.attempts[c.Name] {
		p.attempts[c.Name] = *n
		failed = true
	}
	return failed
}

// renewNow starts the next issuance of a Certificate, as an administrator does with
// `cmctl renew`: cert-manager itself waits for an hour after a failure.
func renewNow(ctx context.Context, c *cluster.Cluster, name string) error {
	client := c.CertManager.CertmanagerV1().Certificates(cluster.ConfigNamespace)
	return lab.Eventually(ctx, "the renewal of Certificate "+name, func(ctx context.Context) error {
		crt, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		// The times have whole seconds, and cert-manager replaces only a CertificateRequest that
		// failed before (pkg/controller/certificates/requestmanager).
		switch failure := crt.Status.LastFailureTime; {
		case failure == nil:
			return fmt.Errorf("cannot renew Certificate %s yet: it has no failure", name)
		case time.Now().Unix() <= failure.Unix():
			return fmt.Errorf("cannot renew Certificate %s yet: its last failure was in this second", name)
		}
		now := metav1.Now()
		crt.Status.Conditions = slices.DeleteFunc(crt.Status.Conditions, func(one cmapi.CertificateCondition) bool {
			return one.Type == cmapi.CertificateConditionIssuing
		})
		crt.Status.Conditions = append(crt.Status.Conditions, cmapi.CertificateCondition{
			Type: cmapi.CertificateConditionIssuing, Status: cmmeta.ConditionTrue, LastTransitionTime: &now,
			Reason: "ManuallyTriggered", Message: "the CA did not reach the VIP", ObservedGeneration: crt.Generation,
		})
		_, err = client.UpdateStatus(ctx, crt, metav1.UpdateOptions{})
		return err
	})
}

// remaining names what a wait has been for. It requires mu.
func (p *progress) remaining() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(p.waiting)) {
		all = append(all, "Certificate "+name+": "+p.waiting[name])
	}
	for uid := range p.current {
		c := p.challenges[uid]
		all = append(all, fmt.Sprintf("Challenge for %s, created at %s, processing: %v, valid: %v",
			c.name, c.created.Format(clock), c.processing, !c.valid.IsZero()))
	}
	const most = 10
	if len(all) > most {
		all = append(all[:most], fmt.Sprintf("and %d others", len(all)-most))
	}
	return strings.Join(all, "\n")
}

func (p *progress) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failure = errors.Join(p.failure, err)
	p.notify()
}

func (p *progress) notify() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// progressLimit bounds the wait for the next Certificate. A self check takes 8 s of one of
// cert-manager's five workers, and a fault has each of them repeat one.
const progressLimit = 3 * time.Minute

// awaitReady waits until a number of Certificates are ready. The wait fails with the first
// failure that no fault can explain, and if no other one becomes ready in progressLimit.
func (p *progress) awaitReady(ctx context.Context, n int) error {
	return p.await(ctx, fmt.Sprintf("%d Certificates that are ready", n), func() (done bool, state int) { return len(p.ready) >= n, len(p.ready) })
}

// awaitNoChallenge waits until cert-manager has deleted each Challenge.
func (p *progress) awaitNoChallenge(ctx context.Context) error {
	return p.await(ctx, "the end of all Challenges", func() (done bool, state int) { return len(p.current) == 0, len(p.current) })
}

func (p *progress) await(ctx context.Context, what string, try func() (done bool, state int)) error {
	limit := time.NewTimer(progressLimit)
	defer limit.Stop()
	before := -1
	for {
		p.mu.Lock()
		done, state := try()
		err := p.failure
		p.mu.Unlock()
		switch {
		case err != nil:
			return err
		case done:
			return nil
		case state != before:
			before = state
			limit.Reset(progressLimit)
		}
		select {
		case <-p.changed:
		case <-limit.C:
			p.mu.Lock()
			defer p.mu.Unlock()
			return fmt.Errorf("%s\nwait for %s: it has been %d for %v", p.remaining(), what, state, progressLimit)
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, context.Cause(ctx))
		}
	}
}

// counts returns how many Certificates are ready and how many Challenges are in progress.
func (p *progress) counts() (ready, challenges int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.ready), p.running
}

// schedule returns the most Challenges in progress at a time, and each violation of the
// scheduler's promises.
func (p *progress) schedule() (most int, violations []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most, p.violations
}

// failedIssuances returns how many issuances have failed.
func (p *progress) failedIssuances() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, attempts := range p.attempts {
		n += attempts
	}
	return n
}

// observed returns all Challenges so far.
func (p *progress) observed() (all []observedChallenge) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.challenges {
		all = append(all, *c)
	}
	return all
}
