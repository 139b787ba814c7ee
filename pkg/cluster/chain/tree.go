// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/condition"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/verdict"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Bounds of what is shown, far above real clusters.
const (
	maxObjects  = 50
	maxOwned    = 20 // of a kind, by an object
	maxFindings = 20
	maxText     = 2 << 10 // bytes of a text of an object
)

func clean(text string) string { return printable.Truncate(text, maxText) }

// Examine returns the tree of the objects, and what is wrong. The hosts are the nodes with the reports of the
// service, or with the reason why there is none.
func Examine(o Objects, hosts []condition.HostReport, now time.Time) report.ClusterCertificate {
	e := examiner{Objects: o, hosts: hosts, now: now, report: report.ClusterCertificate{
		Header: report.NewHeader("ClusterCertificate"), Time: now.UTC().Truncate(time.Second), Name: o.Name,
		Objects: []report.ChainObject{}, Renewals: []report.NextRenewal{}, Findings: []report.ClusterProblem{},
		NotExamined: append([]string{}, o.NotExamined...),
	}}
	e.examineNamed()
	for _, c := range e.certificates {
		values := findings.Values{
			"certificate": c.Metadata.Name, "name": e.Name, "namespace": c.Metadata.Namespace, "secret": c.Spec.SecretName,
			"kind": cmp.Or(c.Spec.IssuerRef.Kind, "Issuer"), "issuer": c.Spec.IssuerRef.Name, "field": e.fieldOf(c),
		}
		e.walk(0, c, values)
		if values["field"] == "" && c.condition("Ready").Status == "True" && len(e.of("APIServer")) > 0 {
			e.find(newFinding(findings.NamedCertificateOther, values))
		}
	}
	if !e.HasCertificate() {
		e.find(newFinding(findings.CertificateAbsent, findings.Values{"name": o.Name}))
	}
	if !slices.ContainsFunc(e.report.Objects, func(r report.ChainObject) bool { return r.Kind == "Node" }) {
		e.addNodes(0, Object{})
	}
	for _, h := range hosts {
		if h.Problem != "" {
			e.report.NotExamined = append(e.report.NotExamined, h.Name+": "+clean(h.Problem))
		}
	}
	r := &e.report
	slices.SortStableFunc(r.Findings, func(a, b report.ClusterProblem) int { return cmp.Compare(a.Level, b.Level) })
	r.Outcome, r.Summary = report.Conclude(e.levels, len(r.NotExamined) > 0)
	return *r
}

type examiner struct {
	Objects

	hosts  []condition.HostReport
	now    time.Time
	report report.ClusterCertificate
	levels []string // of the findings
}

func newFinding(id findings.ID, values findings.Values) findings.Finding {
	values = maps.Clone(values)
	for name, value := range values {
		values[name] = clean(value)
	}
	return findings.New(id, values)
}

// find adds a finding once: one of nodes, or one whose commands run on a workstation.
func (e *examiner) find(f findings.Finding, nodes ...string) {
	p := verdict.Problem(f)
	p.Message, p.Nodes = clean(p.Message), append([]string{}, nodes...)
	if len(nodes) == 0 {
		p.Check = findings.IssuanceCheck
	}
	isKnown := slices.ContainsFunc(e.report.Findings, func(o report.ClusterProblem) bool {
		return o.ID == p.ID && o.Message == p.Message
	})
	if isKnown {
		return
	}
	e.levels = append(e.levels, p.Level)
	if len(e.report.Findings) < maxFindings {
		e.report.Findings = append(e.report.Findings, p)
	}
}

// add adds an object to the tree. Its age begins with its creation, unless the state has a time.
func (e *examiner) add(depth int, o Object, r rule, reason string, since time.Time) {
	if len(e.report.Objects) < maxObjects {
		e.report.Objects = append(e.report.Objects, report.ChainObject{
			Depth: depth, Kind: clean(o.Kind), Namespace: o.Metadata.Namespace, Name: clean(o.Metadata.Name), Outcome: r.outcome,
			State: clean(r.state), Reason: strings.Trim(clean(reason), ": "),
			Since: cmp.Or(since, o.Metadata.CreationTimestamp.Time),
		})
	}
}

// secrets returns the Secrets that were read; nil if they were not.
func (e *examiner) secrets() []Object {
	if slices.Contains(e.unread, "secrets") {
		return nil
	}
	return append([]Object{}, e.of("Secret")...)
}

// examineNamed examines the entries of namedCertificates. It shows those for the name.
func (e *examiner) examineNamed() {
	for _, f := range JudgeNamed(e.entries(), e.secrets(), e.now) {
		e.find(f)
	}
	for _, server := range e.of("APIServer") {
		before := len(e.report.Objects)
		server = named(server.Kind, "", server.Metadata.Name) // it is as old as the cluster
		for i, entry := range e.entries() {
			if len(entry.Names) == 0 || coveredBy(entry.Names, e.Name) {
				e.add(0, server, rule{state: fmt.Sprintf("namedCertificates[%d]", i)}, "Secret "+entry.Secret.Name, time.Time{})
				e.addSecret(Namespace, entry.Secret.Name, report.CheckProblem)
			}
		}
		if len(e.report.Objects) == before {
			e.add(0, server, rule{state: "no named certificate"}, "no entry for "+e.Name, time.Time{})
		}
	}
}

// addSecret shows a Secret and its certificate. The outcome is for a Secret that does not exist.
func (e *examiner) addSecret(namespace, name string, missing report.CheckOutcome) {
	secret := named("Secret", namespace, name)
	if e.secrets() == nil {
		e.add(1, secret, rule{state: "unknown"}, "", time.Time{})
		return
	}
	found := find(e.all, "Secret", namespace, name)
	r, reason, since := inspect(found, []string{e.Name}, e.now)
	if found == nil {
		r.outcome = missing
	} else {
		secret = *found
	}
	e.add(1, secret, r, reason, since)
}

// fieldOf returns the field of the entry of namedCertificates with the Secret of a Certificate; empty without one.
func (e *examiner) fieldOf(c Object) string {
	for i, n := range e.entries() {
		if c.Metadata.Namespace == Namespace && n.Secret.Name == c.Spec.SecretName {
			return fieldOf(i)
		}
	}
	return ""
}

// children are the kinds of the objects that an object owns.
func children() map[string][]string {
	return map[string][]string{
		"Certificate": {"CertificateRequest"}, "CertificateRequest": {"Order"}, "Order": {"Challenge"},
		"Challenge": {"Pod", "Service", "Ingress"}, "Ingress": {"Route"},
	}
}

// usualTime is the time in which a challenge becomes valid. Self checks fail until the solver has started.
const usualTime = 2 * time.Minute

// walk examines an object, and what belongs to it. The values are about the objects to which it belongs.
func (e *examiner) walk(depth int, o Object, values findings.Values) {
	r, c := judge(o)
	since := cmp.Or(c.LastTransitionTime.Time, o.Metadata.CreationTimestamp.Time)
	reason, age := e.reasonOf(o, r, c), e.now.Sub(since)
	e.add(depth, o, r, reason, since)
	before := len(e.report.Findings)
	values = values.With(strings.TrimPrefix(strings.ToLower(o.Kind), "certificate"), o.Metadata.Name) // {request}, {order}
	switch o.Kind {
	case "Certificate":
		e.examineCertificate(o, values)
	case "Order":
		reason, values = e.failuresOf(o), values.With("profile", o.Spec.Profile)
		if r.finding == findings.OrderFailed {
			r.finding = failureOf(reason)
		}
	case "Challenge":
		reason = o.Status.Reason
		values = values.With("name", o.Spec.DNSName).With("token", o.Spec.Token)
		if o.Spec.Solver.HTTP01.GatewayHTTPRoute != nil {
			e.find(newFinding(findings.SolverIsGateway, values))
		}
	case "Pod":
		if names := blocking(e.of("NetworkPolicy"), o); len(names) > 0 {
			e.find(newFinding(findings.SolverPortBlocked, values.With("policies", strings.Join(names, ", "))))
		}
	}
	if o.Kind != "Challenge" || r.finding != "" { // the solver of a finished challenge says nothing
		e.walkOwned(depth+1, o, values)
	}
	if o.Kind == "Challenge" {
		values = values.With("seen", e.addNodes(depth+1, o))
	}
	switch {
	case r.finding == "", age < r.after, o.Kind != "Order" && len(e.report.Findings) > before: // what it has explains it
	case r.finding == findings.IssuerStaging && values["field"] == "":
	case r.finding == findings.ChallengePending && reason == "":
	default:
		f := newFinding(r.finding, values.With("age", report.Age(age)).With("reason", cmp.Or(reason, "it is "+r.state)))
		if r.finding == findings.ChallengePending && age < usualTime {
			f.Level = findings.Warning
		}
		e.find(f)
	}
}

// walkOwned examines what belongs to an object, and shows what is missing.
func (e *examiner) walkOwned(depth int, o Object, values findings.Values) {
	for _, kind := range children()[o.Kind] {
		owned := e.ownedBy(o, kind)
		if len(owned) == 0 && e.mustOwn(o, kind) {
			e.add(depth, named(kind, "", "of the solver"), rule{outcome: report.CheckProblem, state: "missing"}, "", time.Time{})
		}
		if kind == "CertificateRequest" && len(owned) > 1 {
			owned = owned[:1] // the others are of earlier renewals
		}
		for _, one := range owned[:min(len(owned), maxOwned)] {
			e.walk(depth, one, values)
		}
	}
}

// mustOwn reports whether an object of a solver cannot work without one of a kind that was read.
func (e *examiner) mustOwn(o Object, kind string) bool {
	if o.Kind == "Ingress" {
		return !slices.Contains(e.unread, "routes.route.openshift.io")
	}
	solver := o.Spec.Solver.HTTP01
	return o.Status.Presented && o.Status.State == "pending" && !slices.Contains(e.unread, solverResources) &&
		solver.GatewayHTTPRoute == nil && (kind != "Ingress" || solver.Ingress.Name == "")
}

// examineCertificate shows the Secret and the issuer of a Certificate, and when it is renewed.
func (e *examiner) examineCertificate(c Object, values findings.Values) {
	if values["field"] == "" {
		e.addSecret(c.Metadata.Namespace, c.Spec.SecretName, "")
	}
	issuer := e.issuerOf(c)
	e.walk(1, issuer, values.With("server", issuer.Spec.ACME.Server))
	if !c.Status.RenewalTime.IsZero() {
		r := report.NextRenewal{Certificate: c.Metadata.Namespace + "/" + c.Metadata.Name, Time: c.Status.RenewalTime}
		r.Challenge, r.Reason = needsChallenge(issuer.Spec.ACME.Server, issuer.Spec.ACME.Profile, c.Status.NotBefore, r.Time)
		e.report.Renewals = append(e.report.Renewals, r)
	}
}

// issuerOf returns the issuer of a Certificate. One that was not read has its name, and a condition with the reason.
func (e *examiner) issuerOf(c Object) Object {
	ref, namespace := c.Spec.IssuerRef, ""
	if ref.Kind = cmp.Or(ref.Kind, "Issuer"); ref.Kind == "Issuer" {
		namespace = c.Metadata.Namespace
	}
	if known := find(e.all, ref.Kind, namespace, ref.Name); known != nil {
		return *known
	}
	missing := metav1.Condition{Type: "Ready", Reason: "missing"}
	if ref.Group != "" && ref.Group != "cert-manager.io" {
		missing.Reason, missing.Message = "external", "it belongs to "+ref.Group
	}
	issuer := named(ref.Kind, namespace, ref.Name)
	issuer.Status.Conditions = []metav1.Condition{missing}
	return issuer
}

// failuresOf returns why an Order and its Challenges failed.
func (e *examiner) failuresOf(order Object) string {
	reasons := []string{order.Status.Reason}
	for _, c := range e.ownedBy(order, "Challenge") {
		if c.condition("").Status == failed {
			reasons = append(reasons, c.Status.Reason)
		}
	}
	return strings.Trim(strings.Join(reasons, "; "), "; ")
}
