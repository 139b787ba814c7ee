// SPDX-License-Identifier: Apache-2.0

package backoff

import (
	"context"
	"encoding/pem"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	cmtest "github.com/cert-manager/cert-manager/pkg/controller/test"
	"github.com/cert-manager/cert-manager/pkg/logs"
	"github.com/cert-manager/cert-manager/pkg/util/pki"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fakeclock "k8s.io/utils/clock/testing"
)

const (
	namespace = "openshift-config"
	apiName   = "api.cluster.example.com"

	// The defaults of cert-manager (internal/apis/config/controller/v1alpha1/defaults.go).
	minBackoff, maxBackoff = time.Hour, 32 * time.Hour
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start is when the certificates begin to be valid.
var start = time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)

type processor interface {
	ProcessItem(ctx context.Context, key types.NamespacedName) error
}

// certManager are cert-manager's controllers that decide when an attempt starts and what a
// failed one leaves. Nothing runs in the background: the test copies each changed object to
// the caches.
type certManager struct {
	t     *testing.T
	b     *cmtest.Builder
	clock *fakeclock.FakeClock
	key   types.NamespacedName

	trigger, issuing processor
	renewal          time.Time // when the policy requires a new certificate
	request          *cmapi.CertificateRequest
}

// newCertManager returns the controllers with a Certificate that was issued for a lifetime.
func newCertManager(t *testing.T, notBefore time.Time, life time.Duration) *certManager {
	t.Helper()
	notAfter := notBefore.Add(life)
	renewal, err := pki.RenewalTime(notBefore, notAfter, nil, nil, nil)
	must(t, err)
	c := &certManager{t: t, clock: fakeclock.NewFakeClock(notBefore), key: types.NamespacedName{Namespace: namespace, Name: "api"}, renewal: renewal.Time}
	revision, next := 1, "api-next"
	crt := &cmapi.Certificate{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "api", UID: "api"},
		Spec: cmapi.CertificateSpec{
			SecretName: "api-tls", DNSNames: []string{apiName}, IssuerRef: cmmeta.IssuerReference{Name: "letsencrypt"},
			PrivateKey: &cmapi.CertificatePrivateKey{Algorithm: cmapi.ECDSAKeyAlgorithm, Size: 256},
		},
		Status: cmapi.CertificateStatus{Revision: &revision, NextPrivateKeySecretName: &next, RenewalTime: renewal},
	}
	key, err := pki.GenerateECPrivateKey(256)
	must(t, err)
	keyPEM, err := pki.EncodeECPrivateKey(key)
	must(t, err)
	template, err := pki.GenerateCSR(crt)
	must(t, err)
	der, err := pki.EncodeCSR(template, key)
	must(t, err)
	c.request = &cmapi.CertificateRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "api-2", Annotations: map[string]string{cmapi.CertificateRequestRevisionAnnotationKey: "2"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(crt, cmapi.SchemeGroupVersion.WithKind("Certificate"))},
		},
		Spec: cmapi.CertificateRequestSpec{Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), IssuerRef: crt.Spec.IssuerRef},
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: next}, Data: map[string][]byte{corev1.TLSPrivateKeyKey: keyPEM}}
	c.b = &cmtest.Builder{T: t, Clock: c.clock, CertManagerObjects: []runtime.Object{crt}, KubeObjects: []runtime.Object{secret}}
	c.b.Init()
	t.Cleanup(c.b.Stop)
	c.b.CertificateRequestMinimumBackoffDuration, c.b.CertificateRequestMaximumBackoffDuration = minBackoff, maxBackoff

	c.trigger = c.newTrigger()
	issuer, _, _, err := issuing.NewController(logs.Log, c.b.Context)
	must(t, err)
	c.issuing = issuer
	c.cacheCertificate()
	c.b.KubeSharedInformerFactory.Start(t.Context().Done())
	c.b.KubeSharedInformerFactory.WaitForCacheSync(t.Context().Done())
	return c
}

// newTrigger returns the trigger controller. The type of its policy is internal to
// cert-manager, so the policy is made by reflection.
func (c *certManager) newTrigger() processor {
	construct := reflect.ValueOf(trigger.NewController)
	policy := reflect.MakeFunc(construct.Type().In(2), func([]reflect.Value) []reflect.Value {
		return []reflect.Value{reflect.ValueOf("Renewing"), reflect.ValueOf("the renewal is due"), reflect.ValueOf(!c.clock.Now().Before(c.renewal))}
	})
	results := construct.Call([]reflect.Value{reflect.ValueOf(logs.Log), reflect.ValueOf(c.b.Context), policy})
	if err, _ := results[3].Interface().(error); err != nil {
		c.t.Fatal(err)
	}
	return results[0].Interface().(processor)
}

// cacheCertificate copies the Certificate to the cache, and returns it.
func (c *certManager) cacheCertificate() *cmapi.Certificate {
	c.t.Helper()
	crt, err := c.b.CMClient.CertmanagerV1().Certificates(namespace).Get(c.t.Context(), c.key.Name, metav1.GetOptions{})
	must(c.t, err)
	must(c.t, c.b.SharedInformerFactory.Certmanager().V1().Certificates().Informer().GetIndexer().Update(crt))
	return crt
}

func isIssuing(crt *cmapi.Certificate) bool {
	for _, condition := range crt.Status.Conditions {
		if condition.Type == cmapi.CertificateConditionIssuing {
			return condition.Status == cmmeta.ConditionTrue
		}
	}
	return false
}

// tryAt processes the Certificate at a time, and reports whether an attempt has started.
// The attempt fails at once.
func (c *certManager) tryAt(now time.Time) (started bool) {
	c.t.Helper()
	c.clock.SetTime(now)
	must(c.t, c.trigger.ProcessItem(c.t.Context(), c.key))
	if !isIssuing(c.cacheCertificate()) {
		return false
	}
	failed := metav1.NewTime(now)
	request := c.request.DeepCopy()
	request.Status = cmapi.CertificateRequestStatus{FailureTime: &failed, Conditions: []cmapi.CertificateRequestCondition{
		{Type: cmapi.CertificateRequestConditionReady, Status: cmmeta.ConditionFalse, Reason: cmapi.CertificateRequestReasonFailed, Message: "the order is invalid"},
	}}
	must(c.t, c.b.SharedInformerFactory.Certmanager().V1().CertificateRequests().Informer().GetIndexer().Update(request))
	must(c.t, c.issuing.ProcessItem(c.t.Context(), c.key))
	if crt := c.cacheCertificate(); isIssuing(crt) || crt.Status.LastFailureTime == nil {
		c.t.Fatalf("the attempt has not failed: %+v", crt.Status)
	}
	return true
}

// TestScheduleUntilExpiry: the attempts of cert-manager between the renewal time and the
// expiry. The service's estimate is checked against the same schedule (TestAttemptsLeft in
// pkg/report).
func TestScheduleUntilExpiry(t *testing.T) {
	text, err := os.ReadFile("../../../pkg/report/testdata/schedule.txt")
	must(t, err)
	lifetimes := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		lifetimes++
		want := strings.TrimSpace(line)
		lifetime, _, _ := strings.Cut(want, " ")
		t.Run(lifetime, func(t *testing.T) {
			life, err := time.ParseDuration(lifetime)
			must(t, err)
			c := newCertManager(t, start, life)
			if after := c.renewal.Sub(start); after != (2 * life / 3).Truncate(time.Second) {
				t.Errorf("the renewal time is %v after the start of the validity", after)
			}
			expiry, got := start.Add(life), lifetime
			var last time.Time
			for now := c.renewal.Add(-time.Hour); now.Before(expiry); now = now.Add(20 * time.Minute) {
				if c.tryAt(now) {
					last = now
					got += " " + strconv.FormatFloat(now.Sub(c.renewal).Hours(), 'f', -1, 64)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			t.Logf("%s; the last one %v before the expiry", got, expiry.Sub(last))
		})
	}
	if lifetimes != 4 {
		t.Errorf("%d lifetimes", lifetimes)
	}
}
