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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/cluster"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// progress observes the Challenges and the Certificates.
type progress struct {
	mu       sync.Mutex
	ready    map[string]bool
	waiting  map[string]string          // conditions of the Certificates that have not been ready
	invalid  map[types.UID]invalidation // the CA did not get the answer
	attempts map[string]int             // failed issuances of each Certificate
	failure  error
}

// invalidation is the end of a Challenge without the CA's validation.
type invalidation struct {
	at   time.Time
	text string
}

// watchProgress observes until ctx ends.
func watchProgress(ctx context.Context, c *cluster.Cluster) (*progress, error) {
	p := &progress{
		ready: map[string]bool{}, waiting: map[string]string{}, invalid: map[types.UID]invalidation{},
		attempts: map[string]int{},
	}
	return p, observe(ctx, c, func(object any) {
		switch o := object.(type) {
		case *cmacme.Challenge:
			p.seeChallenge(o)
		case *cmapi.Certificate:
			if p.seeCertificate(o) {
				go func() {
					if err := renewNow(ctx, c, o.Name); err != nil && ctx.Err() == nil {
						p.fail(err)
					}
				}()
			}
		}
	})
}

func (p *progress) seeChallenge(c *cmacme.Challenge) {
	switch text := fmt.Sprintf("Challenge for %s: %s", c.Spec.DNSName, c.Status.Reason); c.Status.State {
	case cmacme.Invalid:
		p.mu.Lock()
		defer p.mu.Unlock()
		if _, seen := p.invalid[c.UID]; !seen {
			p.invalid[c.UID] = invalidation{time.Now(), text}
		}
	case cmacme.Expired, cmacme.Errored:
		p.fail(fmt.Errorf("%s (%s)", text, c.Status.State))
	case cmacme.Unknown, cmacme.Pending, cmacme.Processing, cmacme.Ready, cmacme.Valid:
	}
}

// seeCertificate returns whether the issuance of a Certificate has failed once more.
func (p *progress) seeCertificate(c *cmapi.Certificate) (failed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
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
		if failure := crt.Status.LastFailureTime; failure == nil || time.Now().Unix() <= failure.Unix() {
			return fmt.Errorf("cannot renew Certificate %s yet: its last failure is %v", name, failure)
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

func (p *progress) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failure = errors.Join(p.failure, err)
}

// progressLimit bounds the wait for the next Certificate. A self check takes 8 s of one of
// cert-manager's five workers, and a fault has each of them repeat one.
const progressLimit = 3 * time.Minute

// awaitReady waits until a number of Certificates are ready. The wait fails with the first
// failure that no fault can explain, and if no other one becomes ready in progressLimit.
func (p *progress) awaitReady(ctx context.Context, n int) error {
	last, since := -1, time.Now()
	for {
		p.mu.Lock()
		ready, failure, waiting := len(p.ready), p.failure, slices.Sorted(maps.Values(p.waiting))
		p.mu.Unlock()
		switch {
		case failure != nil:
			return failure
		case ready >= n:
			return nil
		case ready != last:
			last, since = ready, time.Now()
		case time.Since(since) > progressLimit:
			return fmt.Errorf("%d Certificates are ready, want %d:\n%s", ready, n, strings.Join(waiting, "\n"))
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// invalidations returns the Challenges that were invalid.
func (p *progress) invalidations() []invalidation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.invalid))
}
