// SPDX-License-Identifier: Apache-2.0

package rehearsal_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cmacme "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal"
	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/cluster"
	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/nodeagent"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

const (
	// issueLimit bounds the wait for cert-manager. All cases run at the same time, and
	// cert-manager has five workers for them. A self check that passes takes 8 s of one.
	issueLimit = 4 * time.Minute
	// lifetime is the lifetime of the CA's certificates.
	lifetime = time.Hour
	// sharedIssuer has no fault.
	sharedIssuer = "pebble"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must1[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return value
	}
}

// shared is the cluster that all cases use at the same time.
type shared struct {
	lab      *lab.Lab
	cluster  *cluster.Cluster
	release  cluster.CertManagerRelease
	messages *messages
	holder   *lab.ControlPlaneNode // of all API VIPs
	services []*lab.Service
	plugin   string // oc-http01
	// pluginPath is the folder with the oc that it calls.
	pluginPath string

	mu    sync.Mutex
	pairs []pair
	ended []ending
}

// ending has texts of the journal's entry about the end of a challenge.
type ending struct {
	token string
	texts []string
}

// pair is a text of cert-manager and the finding of check for the same fault.
type pair struct{ text, finding string }

// startShared starts a cluster with the service, for certificates of some names only.
func startShared(t *testing.T, layout lab.Layout, names func(*lab.Lab) []string) *shared {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	programs := must1(cluster.Build(run))(t)
	s := &shared{release: programs.Release}
	s.lab = must1(lab.New(run, lab.With(layout), lab.WithCertificateLifetime(lifetime)))(t)
	s.closeAtEnd(t)
	hosts := strings.Join(names(s.lab), ", ")
	for _, m := range s.lab.ControlPlane {
		must(t, m.WriteAPIServerURL("api-int."+s.lab.Domain))
		must(t, m.UseDNS())
		s.services = append(s.services, must1(m.StartService(run, lab.ServiceOptions{
			Binary: binary, Config: m.DefaultConfig() + "hosts: [" + hosts + "]\n",
		}))(t))
	}
	s.holder = must1(s.lab.VIPHolder(run, s.lab.API.Both()[0]))(t)
	must1(s.services[s.holder.Index].AwaitReason(run, "Serving"))(t)
	s.cluster = must1(cluster.Start(run, s.lab, programs))(t)
	s.cluster.CollectGarbage()
	ctx, stop := context.WithCancel(run)
	t.Cleanup(stop)
	s.messages = must1(watch(ctx, s.cluster))(t)
	must(t, s.startPlugin(programs.Kubectl, t.TempDir()))
	s.createIssuer(t, sharedIssuer, nil)
	return s
}

// closeAtEnd removes the cluster and the lab after the test.
func (s *shared) closeAtEnd(t *testing.T) {
	t.Helper()
	interrupted := context.AfterFunc(run, func() { _ = s.close(); os.Exit(130) })
	t.Cleanup(func() {
		interrupted()
		if t.Failed() {
			t.Log(s.logs())
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
}

func (s *shared) logs() string {
	if s.cluster != nil {
		return s.cluster.Logs()
	}
	return s.lab.Logs()
}

func (s *shared) close() error {
	var err error
	if s.cluster != nil {
		err = s.cluster.Close()
	}
	return errors.Join(err, s.lab.Close())
}

// createIssuer creates a ClusterIssuer, with a change unless it is nil.
func (s *shared) createIssuer(t *testing.T, name string, change func(*cmacme.ACMEIssuer)) {
	t.Helper()
	must(t, s.cluster.CreateIssuer(run, name, change))
}

// awaitIssuer waits until a ClusterIssuer is ready with a status.
func (s *shared) awaitIssuer(t *testing.T, name string, accept func(*cmacme.ACMEIssuerStatus) bool) {
	t.Helper()
	must(t, lab.Within(run, issueLimit, "the ClusterIssuer "+name, func(context.Context) error {
		issuer, err := s.messages.issuers.Get(name)
		if err != nil {
			return err
		}
		if !cluster.IsReady(issuer) || issuer.Status.ACME == nil || !accept(issuer.Status.ACME) {
			return fmt.Errorf("its status is %+v", issuer.Status)
		}
		return nil
	}))
}

// changeIssuer changes a ClusterIssuer. cert-manager replaces the Challenges whose solver
// changes.
func (s *shared) changeIssuer(t *testing.T, name string, change func(*cmacme.ACMEIssuer)) {
	t.Helper()
	issuers := s.cluster.CertManager.CertmanagerV1().ClusterIssuers()
	must(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		issuer, err := issuers.Get(run, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(issuer.Spec.ACME)
		_, err = issuers.Update(run, issuer, metav1.UpdateOptions{})
		return err
	}))
}

// setPodAnnotations sets the annotations of the solver Pods of an issuer.
func setPodAnnotations(annotations map[string]string) func(*cmacme.ACMEIssuer) {
	return func(i *cmacme.ACMEIssuer) {
		i.Solvers[0].HTTP01.Ingress.PodTemplate = &cmacme.ACMEChallengeSolverHTTP01IngressPodTemplate{
			ACMEChallengeSolverHTTP01IngressPodObjectMeta: cmacme.ACMEChallengeSolverHTTP01IngressPodObjectMeta{
				Annotations: annotations,
			},
		}
	}
}

// holdPods keeps the solver Pods of an issuer from starting.
func holdPods() func(*cmacme.ACMEIssuer) {
	return setPodAnnotations(map[string]string{nodeagent.HoldAnnotation: "true"})
}

// failure is one Certificate and its fault.
type failure struct {
	*shared

	t    *testing.T
	name string // of the Certificate and of its Secret; no other name begins with it
	host string // the DNS name
	text string // cert-manager's last one that was expected
}

func (s *shared) failure(t *testing.T, name string) *failure {
	t.Helper()
	return &failure{shared: s, t: t, name: name, host: name + "." + s.lab.Domain}
}

// resolve publishes the addresses of the DNS name.
func (f *failure) resolve(to lab.Pair) {
	f.t.Helper()
	must(f.t, f.lab.Internet.SetName(run, f.host, to))
}

// create creates the Certificate.
func (f *failure) create(issuer string, more ...string) {
	f.t.Helper()
	client := f.cluster.CertManager.CertmanagerV1().Certificates(cluster.ConfigNamespace)
	spec := rehearsal.CertificateSpec(f.name, issuer, append([]string{f.host}, more...)...)
	must1(client.Create(run, &cmapi.Certificate{ObjectMeta: metav1.ObjectMeta{Name: f.name}, Spec: spec},
		metav1.CreateOptions{}))(f.t)
}

// challenge waits for the Challenge, which is not one of others.
func (f *failure) challenge(others ...*cmacme.Challenge) (found *cmacme.Challenge) {
	f.t.Helper()
	must(f.t, lab.Within(run, issueLimit, "the Challenge for "+f.host, func(context.Context) error {
		all, err := f.messages.challenges.List(labels.Everything())
		if err != nil {
			return err
		}
		for _, c := range all {
			if c.Spec.DNSName == f.host && !slices.ContainsFunc(others,
				func(o *cmacme.Challenge) bool { return o.UID == c.UID }) {
				found = c
				return nil
			}
		}
		return errors.New("none exists")
	}))
	return found
}

// expect waits until cert-manager writes a text that matches an expression to an object
// of the case, and logs it.
func (f *failure) expect(expression string) {
	f.t.Helper()
	f.expectOf(f.name, expression)
}

func (f *failure) expectOf(prefix, expression string) {
	f.t.Helper()
	var found message
	compiled := regexp.MustCompile(expression)
	must(f.t, lab.Within(run, issueLimit, "cert-manager's text "+expression, func(context.Context) error {
		var is bool
		if found, is = f.messages.find(prefix, compiled); !is {
			return fmt.Errorf("it has written:\n%s", f.messages.of(prefix))
		}
		return nil
	}))
	f.text = found.text
	f.t.Logf("cert-manager: %v", found)
}

// selfCheckFails expects a failed self check.
func (f *failure) selfCheckFails(expression string) {
	f.t.Helper()
	f.expect("^Waiting for HTTP-01 challenge propagation: " + expression)
}

// expectJournal waits for a line about a token in the service's log on the holder, and logs
// it.
func (f *failure) expectJournal(token string, texts ...string) {
	f.t.Helper()
	must(f.t, lab.Within(run, issueLimit, fmt.Sprintf("the journal's line with %q", texts), func(context.Context) error {
		lines := f.journal(token)
		i := slices.IndexFunc(lines, func(line string) bool {
			return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) })
		})
		if i < 0 {
			return fmt.Errorf("it has %q", lines)
		}
		f.t.Logf("journal: %s", lines[i])
		return nil
	}))
}

// expectNoSelfCheck expects no request of cert-manager for a challenge in the journal.
func (f *failure) expectNoSelfCheck(c *cmacme.Challenge) {
	f.t.Helper()
	if lines := f.journal(c.Spec.Token); strings.Contains(strings.Join(lines, "\n"), selfCheck) {
		f.t.Errorf("the journal has requests of cert-manager: %q", lines)
	}
}

// expectEnd has compareEnds expect texts in the entry about the end of a challenge. Without
// validation, there must be no request of the CA in the journal.
func (f *failure) expectEnd(c *cmacme.Challenge, texts ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = append(f.ended, ending{c.Spec.Token, texts})
}

// compareEnds waits for the entries of expectEnd, which follow a minute after the last
// request.
func (f *failure) compareEnds() {
	f.t.Helper()
	for _, e := range f.ended {
		f.expectJournal(e.token, e.texts...)
		if lines := f.journal(e.token); !slices.Contains(e.texts, validation) &&
			strings.Contains(strings.Join(lines, "\n"), "Pebble") {
			f.t.Errorf("the journal has requests of the CA: %q", lines)
		}
	}
}

// journal returns the texts of the log's lines about a token.
func (f *failure) journal(token string) []string {
	f.t.Helper()
	return must1(rehearsal.ChallengeLines(f.services[f.holder.Index].Log, token[:8]))(f.t)
}

// expectFinding runs check on the holder until it reports a finding: the route of a solver
// may follow later than the text of cert-manager.
func (f *failure) expectFinding(id string, flags ...string) {
	f.t.Helper()
	var report lab.CheckReport
	must(f.t, lab.Within(run, issueLimit, "the finding "+id, func(ctx context.Context) error {
		var err error
		if report, _, err = f.holder.Check(ctx, binary, append([]string{"--name", f.host}, flags...)...); err != nil {
			return err
		}
		if !slices.Contains(report.IDs(), id) {
			return fmt.Errorf("check reports %v", report.IDs())
		}
		return nil
	}))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pairs = append(f.pairs, pair{f.text, id})
	f.t.Logf("check: %s: %s", id, strings.Join(report.Texts(id), "\n"))
}

// expectNoFinding runs check on the holder and expects that a finding is absent.
func (f *failure) expectNoFinding(id string) {
	f.t.Helper()
	report, _, err := f.holder.Check(run, binary, "--name", f.host)
	must(f.t, err)
	if slices.Contains(report.IDs(), id) {
		f.t.Fatalf("check still reports %s: %s", id, strings.Join(report.Texts(id), "\n"))
	}
	f.t.Logf("check: %v", report.IDs())
}

// start removes the annotation that keeps the solver Pods of a Challenge from starting.
func (f *failure) start(c *cmacme.Challenge) {
	f.t.Helper()
	pods := f.cluster.Kube.CoreV1().Pods(c.Namespace)
	all := must1(pods.List(run, metav1.ListOptions{LabelSelector: cmacme.SolverIdentificationLabelKey + "=true"}))(f.t)
	for _, p := range all.Items {
		if metav1.IsControlledBy(&p, c) {
			must1(pods.Patch(run, p.Name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+nodeagent.HoldAnnotation+
				`":null}}}`), metav1.PatchOptions{}))(f.t)
		}
	}
}

// awaitReady waits until the Certificate is ready and its Secret has a certificate for the
// name.
func (f *failure) awaitReady() {
	f.t.Helper()
	must(f.t, lab.Within(run, issueLimit, "the Certificate "+f.name, func(context.Context) error {
		c, err := f.messages.certificates.Certificates(cluster.ConfigNamespace).Get(f.name)
		if err != nil {
			return err
		}
		has := func(kind cmapi.CertificateConditionType) bool {
			return slices.ContainsFunc(c.Status.Conditions, func(c cmapi.CertificateCondition) bool {
				return c.Type == kind && c.Status == cmmeta.ConditionTrue
			})
		}
		// It is ready before cert-manager ends the issuance.
		if !has(cmapi.CertificateConditionReady) || has(cmapi.CertificateConditionIssuing) || c.Status.Revision == nil {
			return fmt.Errorf("it is not ready; cert-manager has written:\n%s", f.messages.of(f.name))
		}
		return nil
	}))
	secret := must1(f.cluster.Kube.CoreV1().Secrets(cluster.ConfigNamespace).Get(run, f.name, metav1.GetOptions{}))(f.t)
	block, _ := pem.Decode(secret.Data[corev1.TLSCertKey])
	if block == nil {
		f.t.Fatal("the Secret has no certificate")
	}
	must(f.t, must1(x509.ParseCertificate(block.Bytes))(f.t).VerifyHostname(f.host))
	f.t.Log("cert-manager: the Certificate is ready")
}

// renewal is the tutorial's command that requests a renewal.
var renewal = regexp.MustCompile(`(?m)^oc patch certificate api-certificate .* --patch='(.*)'$`)

// renewAfterFailure is renew after a failed CertificateRequest.
func (f *failure) renewAfterFailure() {
	f.t.Helper()
	// Times have seconds. In the same second as the failure, cert-manager takes the result of
	// the failed request (pkg/controller/certificates/issuing).
	must(f.t, lab.Within(run, issueLimit, "the next second", func(context.Context) error {
		failed, err := f.messages.requests.CertificateRequests(cluster.ConfigNamespace).Get(f.name + "-1")
		if err != nil {
			return err
		}
		if failed.Status.FailureTime == nil || !time.Now().Truncate(time.Second).After(failed.Status.FailureTime.Time) {
			return errors.New("the request has just failed")
		}
		return nil
	}))
	f.renew()
}

// renew requests the certificate with the tutorial's command.
func (f *failure) renew() {
	f.t.Helper()
	command := renewal.FindStringSubmatch(document(f.t, tutorialDocument))
	if command == nil {
		f.t.Fatal("the tutorial has no command that renews")
	}
	patch := strings.Replace(command[1], `'"$(date -u +%Y-%m-%dT%H:%M:%SZ)"'`, time.Now().UTC().Format(time.RFC3339), 1)
	must1(f.cluster.CertManager.CertmanagerV1().Certificates(cluster.ConfigNamespace).Patch(
		run, f.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"))(f.t)
}

// drop adds a rule that drops or rejects connections from a node to port 80 of addresses.
func drop(t *testing.T, n *lab.Node, verdict string, to ...netip.Addr) (remove func()) {
	t.Helper()
	var set []string
	for _, a := range to {
		set = append(set, a.String())
	}
	rules := fmt.Sprintf(
		"table inet failure {\n chain output {\n  type filter hook output priority 0\n  ip daddr { %s } tcp dport 80 "+
			"%s\n }\n}\n", strings.Join(set, ", "), verdict)
	must1(n.Input(run, rules, "nft", "-f", "-"))(t)
	return func() {
		t.Helper()
		must1(n.Run(run, "nft", "delete", "table", "inet", "failure"))(t)
	}
}
