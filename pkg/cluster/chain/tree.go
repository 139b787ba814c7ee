// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/condition"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/verdict"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Examine returns the tree of the objects, and what is wrong. The hosts are the nodes with the reports of the
// service, or with the reason why there is none.
func Examine(o Objects, hosts []condition.HostReport, now time.Time) report.ClusterCertificate {
	e := examiner{Objects: o, hosts: hosts, now: now, report: report.ClusterCertificate{
		Header: report.NewHeader("ClusterCertificate"), Time: now.UTC().Truncate(time.Second), Name: o.Name,
		Objects: []report.ChainObject{}, Renewals: []report.NextRenewal{}, Findings: []report.ClusterProblem{},
		NotExamined: append([]string{}, o.NotExamined...),
	}}
	e.examineNamed()
	certificates := o.of("Certificate")
	for _, c := range certificates {
		e.examineCertificate(c)
	}
	if len(certificates) == 0 {
		e.find(findings.New(findings.CertificateAbsent, findings.Values{"name": o.Name}))
	}
	if !slices.ContainsFunc(e.report.Objects, func(r report.ChainObject) bool { return r.Kind == "Node" }) {
		e.addNodes(0, object{})
	}
	for _, h := range hosts {
		if h.Problem != "" {
			e.report.NotExamined = append(e.report.NotExamined, h.Name+": "+clean(h.Problem))
		}
	}
	e.conclude()
	return e.report
}

type examiner struct {
	Objects

	hosts  []condition.HostReport
	now    time.Time
	report report.ClusterCertificate
}

// find adds a finding whose commands run on a workstation, each once.
func (e *examiner) find(all ...findings.Finding) {
	for _, f := range all {
		p := verdict.Problem(f)
		p.Check, p.Nodes = findings.IssuanceCheck, []string{}
		e.addProblem(p)
	}
}

func (e *examiner) addProblem(p report.ClusterProblem) {
	p.Message = clean(p.Message)
	if !slices.ContainsFunc(e.report.Findings, func(o report.ClusterProblem) bool {
		return o.ID == p.ID && o.Message == p.Message
	}) {
		e.report.Findings = append(e.report.Findings, p)
	}
}

// add adds an object to the tree. Its age begins with its creation, unless the state has a time.
func (e *examiner) add(depth int, o object, outcome report.CheckOutcome, state, reason string, since time.Time) {
	e.report.Objects = append(e.report.Objects, report.ChainObject{
		Depth: depth, Kind: o.Kind, Namespace: o.Metadata.Namespace, Name: clean(o.Metadata.Name), Outcome: outcome,
		State: clean(state), Reason: strings.TrimRight(clean(reason), ": "), Since: cmp.Or(since, o.Metadata.Created),
	})
}

// examineNamed examines the entries of namedCertificates. It shows those for the name.
func (e *examiner) examineNamed() {
	e.find(JudgeNames(e.named())...)
	if e.hasSecrets {
		e.find(JudgeSecrets(e.named(), e.secrets, e.now)...)
	}
	for _, server := range e.of("APIServer") {
		shown := 0
		server.Metadata.Created = time.Time{} // as old as the cluster
		for i, entry := range e.named() {
			if len(entry.Names) > 0 && !coveredBy(entry.Names, e.Name) {
				continue
			}
			shown++
			e.add(0, server, "", fmt.Sprintf("namedCertificates[%d]", i), "Secret "+entry.Secret.Name, time.Time{})
			e.addSecret(Namespace, entry.Secret.Name, report.CheckProblem)
		}
		if shown == 0 {
			e.add(0, server, "", "no named certificate", "no entry for "+e.Name, time.Time{})
		}
	}
}

// addSecret shows a Secret and its certificate. The outcome is for a Secret that does not exist.
func (e *examiner) addSecret(namespace, name string, missing report.CheckOutcome) {
	const depth = 1
	o := object{Kind: "Secret", Metadata: metadata{Namespace: namespace, Name: name}}
	s := lookUp(e.secrets, namespace, name)
	switch {
	case !e.hasSecrets:
		e.add(depth, o, "", "unknown", "", time.Time{})
		return
	case s == nil:
		e.add(depth, o, missing, "missing", "", time.Time{})
		return
	}
	o.Metadata = s.Metadata
	c, err := s.certificate()
	if err != nil {
		e.add(depth, o, report.CheckProblem, "invalid", err.Error(), time.Time{})
		return
	}
	until := fmt.Sprintf("until %s, issued by %q", c.NotAfter.UTC().Format("2006-01-02 15:04 MST"), c.Issuer.CommonName)
	switch {
	case c.VerifyHostname(e.Name) != nil:
		e.add(depth, o, report.CheckProblem, "another name", "for "+strings.Join(c.DNSNames, ", "), c.NotBefore)
	case e.now.After(c.NotAfter):
		e.add(depth, o, report.CheckProblem, "expired", until, c.NotAfter)
	default:
		e.add(depth, o, report.CheckOK, "valid", until, c.NotBefore)
	}
}

// stuckTime is the time after which an issuance without another finding is one.
const stuckTime = 10 * time.Minute

// examineCertificate examines a Certificate, its issuer and its newest CertificateRequest.
func (e *examiner) examineCertificate(c object) {
	outcome, state, reason := report.CheckProblem, "not ready", ""
	shown, isReady := c.is("Ready")
	issuing := c.condition("Issuing")
	switch {
	case issuing.Status == "True":
		outcome, state, shown, reason = "", "issuing", issuing, issuing.Message
	case issuing.Status == "False":
		state, shown = "failed", issuing
		reason = fmt.Sprintf("failed attempts: %d; %s", max(1, c.Status.FailedAttempts), issuing.Message)
	case isReady:
		outcome, state = report.CheckOK, "ready"
	default:
		reason = shown.Message
	}
	e.add(0, c, outcome, state, reason, shown.Since)
	before := len(e.report.Findings)
	values := findings.Values{
		"certificate": c.Metadata.Name, "namespace": c.Metadata.Namespace, "name": e.Name,
		"secret": clean(c.Spec.SecretName), "kind": clean(cmp.Or(c.Spec.IssuerRef.Kind, "Issuer")),
		"issuer": clean(c.Spec.IssuerRef.Name),
	}
	field := e.entryOf(c)
	if field == "" {
		e.addSecret(c.Metadata.Namespace, c.Spec.SecretName, "")
	}
	e.examineIssuer(c, values.With("field", field))
	if requests := e.ownedBy(c, "CertificateRequest"); len(requests) > 0 {
		e.examineRequest(requests[0], values.With("request", requests[0].Metadata.Name))
	}
	stuck := outcome == report.CheckProblem || outcome == "" && e.now.Sub(shown.Since) > stuckTime
	if stuck && len(e.report.Findings) == before {
		e.find(findings.New(findings.CertificateNotReady, values.With("reason", clean(cmp.Or(reason, state)))))
	}
	if isReady && field == "" && len(e.of("APIServer")) > 0 {
		e.find(findings.New(findings.NamedCertificateOther, values))
	}
}

// entryOf returns the field of the entry of namedCertificates with the Secret of a Certificate; empty without one.
func (e *examiner) entryOf(c object) string {
	i := slices.IndexFunc(e.named(), func(n NamedCertificate) bool {
		return c.Metadata.Namespace == Namespace && n.Secret.Name == c.Spec.SecretName
	})
	if i < 0 {
		return ""
	}
	return fieldOf(i)
}

// examineIssuer examines the issuer of a Certificate, and with its CA the next renewal. {field} is the entry of
// namedCertificates; empty without one.
func (e *examiner) examineIssuer(c object, values findings.Values) {
	issuer := object{Kind: values["kind"], Metadata: metadata{Name: values["issuer"]}}
	if issuer.Kind == "Issuer" {
		issuer.Metadata.Namespace = c.Metadata.Namespace
	}
	all := e.of(issuer.Kind)
	i := slices.IndexFunc(all, func(o object) bool {
		return o.Metadata.Name == issuer.Metadata.Name && o.Metadata.Namespace == issuer.Metadata.Namespace
	})
	if i >= 0 {
		issuer = all[i]
	}
	ready, isReady := issuer.is("Ready")
	server, profile := "", ""
	if issuer.Spec.ACME != nil {
		server, profile = clean(issuer.Spec.ACME.Server), issuer.Spec.ACME.Profile
	}
	staging := isStaging(server)
	switch {
	case i < 0 && c.Spec.IssuerRef.Group != "" && c.Spec.IssuerRef.Group != "cert-manager.io":
		e.add(1, issuer, "", "not examined", "it belongs to "+c.Spec.IssuerRef.Group, time.Time{})
		return
	case i < 0:
		e.add(1, issuer, report.CheckProblem, "missing", "", time.Time{})
	case !isReady:
		e.add(1, issuer, report.CheckProblem, "not ready", ready.Message, ready.Since)
	case staging:
		e.add(1, issuer, report.CheckWarning, "ready", server+", a CA for tests", ready.Since)
	default:
		e.add(1, issuer, report.CheckOK, "ready", server, ready.Since)
	}
	if !isReady {
		e.find(findings.New(findings.IssuerNotReady,
			values.With("reason", clean(cmp.Or(ready.Message, "it does not exist")))))
	}
	if staging && values["field"] != "" {
		e.find(findings.New(findings.IssuerStaging, values.With("server", server)))
	}
	if !c.Status.RenewalTime.IsZero() {
		r := report.NextRenewal{Certificate: c.Metadata.String(), Time: c.Status.RenewalTime}
		r.Challenge, r.Reason = needsChallenge(server, profile, c.Status.NotBefore, c.Status.RenewalTime)
		e.report.Renewals = append(e.report.Renewals, r)
	}
}

// approvalTime is the time in which cert-manager or a policy approves a request.
const approvalTime = 30 * time.Second

// examineRequest examines a CertificateRequest and its Orders.
func (e *examiner) examineRequest(r object, values findings.Values) {
	denied, isDenied := r.is("Denied")
	_, isApproved := r.is("Approved")
	ready, isReady := r.is("Ready")
	age := e.now.Sub(r.Metadata.Created)
	switch {
	case isDenied:
		e.add(1, r, report.CheckProblem, "denied", denied.Message, denied.Since)
		e.find(findings.New(findings.RequestDenied, values.With("reason", clean(cmp.Or(denied.Message, denied.Reason)))))
	case isReady:
		e.add(1, r, report.CheckOK, "issued", "", ready.Since)
	case ready.Reason == "Failed":
		e.add(1, r, report.CheckProblem, "failed", ready.Message, ready.Since)
	case !isApproved:
		e.add(1, r, report.CheckWarning, "not approved", "", time.Time{})
		if age > approvalTime {
			e.find(findings.New(findings.RequestNotApproved, values.With("age", report.Age(age))))
		}
	default:
		e.add(1, r, "", "pending", ready.Message, ready.Since)
	}
	for _, o := range e.ownedBy(r, "Order") {
		e.examineOrder(o, values.With("order", o.Metadata.Name))
	}
}

// examineOrder examines an Order and its Challenges.
func (e *examiner) examineOrder(o object, values findings.Values) {
	challenges := e.ownedBy(o, "Challenge")
	reasons := []string{o.Status.Reason}
	for _, c := range challenges {
		if failed(c) {
			reasons = append(reasons, c.Status.Reason)
		}
	}
	reason := strings.Trim(strings.Join(reasons, "; "), "; ")
	switch {
	case failed(o):
		e.add(2, o, report.CheckProblem, o.Status.State, o.Status.Reason, time.Time{})
		e.find(findings.New(failureOf(reason), values.With("reason", clean(cmp.Or(reason, "it is "+o.Status.State)))))
	case o.Status.State == "valid":
		reused := ""
		if a := o.Status.Authorizations; len(a) > 0 && a[0].InitialState == "valid" {
			reused = "without a challenge: the CA reused an authorization"
		}
		e.add(2, o, report.CheckOK, o.Status.State, reused, time.Time{})
	default:
		e.add(2, o, "", cmp.Or(o.Status.State, "new"), o.Status.Reason, time.Time{})
	}
	for _, c := range challenges[:min(len(challenges), maxChallenges)] {
		e.examineChallenge(c, values)
	}
}

// failed reports whether an Order or a Challenge cannot become valid (cert-manager, pkg/acme/acme.go,
// IsFailureState).
func failed(o object) bool {
	return slices.Contains([]string{"invalid", "expired", "errored"}, o.Status.State)
}

// failureOf classifies the reason of a failed order by the problem type of the CA. A paused name has the type of
// a rate limit too (boulder, wfe2/wfe.go and probs.Paused).
func failureOf(reason string) findings.ID {
	switch {
	case strings.Contains(reason, "temporarily prevented from requesting certificates"):
		return findings.CANamePaused
	case strings.Contains(reason, "urn:ietf:params:acme:error:rateLimited"):
		return findings.CARateLimited
	}
	return findings.OrderFailed
}

func (e *examiner) conclude() {
	r := &e.report
	var levels []string
	r.Outcome = report.CheckOK
	if len(r.NotExamined) > 0 {
		r.Outcome = report.CheckIncomplete
	}
	slices.SortStableFunc(r.Findings, func(a, b report.ClusterProblem) int { return cmp.Compare(a.Level, b.Level) })
	for _, f := range r.Findings {
		levels = append(levels, f.Level)
		r.Outcome = report.Worst(r.Outcome, report.CheckOutcome(f.Level))
	}
	r.Summary = r.Outcome.Summarize(levels)
}
