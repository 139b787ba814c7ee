// SPDX-License-Identifier: Apache-2.0

package rehearsal

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	cmacme "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/keyutil"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/cluster"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/steps"
)

const (
	issuerName      = "api-acme" // as rendered for a CA without a name
	certificateName = "api-certificate"

	// lifetime is the lifetime of the CA's certificates.
	lifetime = time.Hour
	// issueLimit bounds the wait for a certificate: a self check starts every 10 s and
	// takes 8 s, and the route takes up to 10 s.
	issueLimit = 3 * time.Minute
)

// Rehearsal has the state that the steps share.
type Rehearsal struct {
	Binary   string // path of http01-proxyd
	Layout   lab.Layout
	Programs cluster.Programs

	lab      *lab.Lab
	cluster  *cluster.Cluster
	records  *recorder
	stop     context.CancelFunc // of the records
	services []*lab.Service
	before   map[string]string // ruleset of each control-plane node before the service
	began    time.Time         // of the Certificate, of its renewal, or of many Certificates
	serial   string            // of the current certificate
	examined map[string][]int  // the router's status codes for requests of check, by token
}

// Steps returns the steps in order.
func (r *Rehearsal) Steps() []steps.Step {
	first := []steps.Step{
		{Title: "Bring the lab up", Run: r.up, Base: true},
		{Title: "Start etcd, kube-apiserver, cert-manager", Run: r.startCluster, Base: true},
	}
	// In a compact cluster the router listens on port 80 of the node that holds the VIP, so
	// that a challenge may succeed without the service.
	if !r.Layout.Compact {
		first = append(first, steps.Step{
			Title: "Certificate without the service: pending", Run: r.applyWithoutService,
			Base: true,
		})
	}
	return append(first, []steps.Step{
		{Title: "Start the service: the Certificate is ready", Run: r.startService, Base: true},
		{Title: "All records agree on each request", Run: r.compareRecords},
		{Title: "The API server presents the certificate", Run: r.serve, Base: true},
		{Title: "The VIP moves, then the renewal is due", Run: r.renew, Base: true},
		{Title: "All records agree on each request", Run: r.compareRecords},
		{Title: "The API server presents the renewed one", Run: r.serveRenewed},
		{Title: "Stop the service, compare the rulesets", Run: r.end},
	}...)
}

// Logs returns the output of the programs.
func (r *Rehearsal) Logs() string {
	switch {
	case r.cluster != nil:
		return r.cluster.Logs()
	case r.lab != nil:
		return r.lab.Logs()
	}
	return ""
}

// Close removes the cluster and the lab.
func (r *Rehearsal) Close() error {
	var errs []error
	if r.stop != nil {
		r.stop()
	}
	if r.cluster != nil {
		errs = append(errs, r.cluster.Close())
	}
	if r.lab != nil {
		errs = append(errs, r.lab.Close())
	}
	return errors.Join(errs...)
}

func (r *Rehearsal) apiName() string { return "api." + r.lab.Domain }

func (r *Rehearsal) up(ctx context.Context) (string, error) {
	var err error
	if r.lab, err = lab.New(ctx, lab.With(r.Layout), lab.WithCertificateLifetime(lifetime)); err != nil {
		return "", err
	}
	if err := r.lab.Internet.SetName(ctx, r.apiName(), r.lab.API); err != nil {
		return "", err
	}
	r.before = map[string]string{}
	for _, m := range r.lab.ControlPlane {
		if err := m.LoadNodeRules(ctx); err != nil {
			return "", err
		}
		if r.before[m.Name], err = m.Ruleset(ctx); err != nil {
			return "", err
		}
		if err := m.WriteAPIServerURL("api-int." + r.lab.Domain); err != nil {
			return "", err
		}
		if err := m.UseDNS(); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%s has the API VIPs %v", r.apiName(), r.lab.API.Both()), nil
}

func (r *Rehearsal) startCluster(ctx context.Context) (string, error) {
	var err error
	_, trust := r.lab.Internet.Directory()
	if r.cluster, err = cluster.Start(ctx, r.lab, r.Programs, cluster.TrustACME(trust)); err != nil {
		return "", err
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.stop = stop
	r.records = &recorder{states: map[string][]string{}}
	if err := observe(watching, r.cluster, r.records.see); err != nil {
		return "", err
	}
	var nodes []string
	for _, a := range r.cluster.APIServers {
		nodes = append(nodes, a.Node.Name)
	}
	return fmt.Sprintf("etcd %s, kube-apiserver %s on %s, cert-manager %s on %s", cluster.EtcdVersion,
		cluster.KubernetesVersion, strings.Join(nodes, " and "), r.Programs.Release.Version(), r.lab.Pods[0].Name), nil
}

// applyWithoutService applies the issuer and the Certificate. Nothing listens on port 80 of
// the VIP: cert-manager and check must name that cause.
func (r *Rehearsal) applyWithoutService(ctx context.Context) (string, error) {
	if err := r.apply(ctx); err != nil {
		return "", err
	}
	var reason string
	var challenge *cmacme.Challenge
	err := lab.Within(ctx, issueLimit, "the reason of the Challenge", func(ctx context.Context) error {
		all, err := r.cluster.CertManager.AcmeV1().Challenges(cluster.ConfigNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(all.Items) != 1 {
			return fmt.Errorf("%d Challenges", len(all.Items))
		}
		challenge = &all.Items[0]
		reason = challenge.Status.Reason
		if !strings.HasPrefix(reason, "Waiting for HTTP-01 challenge propagation: ") ||
			challenge.Status.State != cmacme.Pending {
			return fmt.Errorf("the Challenge is %q: %s", challenge.Status.State, reason)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if !strings.HasSuffix(reason, "connect: connection refused") {
		return "", fmt.Errorf("the Challenge has another reason: %s", reason)
	}
	holder, err := r.lab.VIPHolder(ctx, r.lab.API.Both()[0])
	if err != nil {
		return "", err
	}
	if err := holder.WriteConfig(r.config(holder, "")); err != nil {
		return "", err
	}
	report, _, err := holder.Check(ctx, r.Binary, "--name", r.apiName(), "--token", challenge.Spec.Token)
	if err != nil {
		return "", err
	}
	examined, err := routerStatuses(r.cluster, challenge.Spec.Token)
	if err != nil {
		return "", err
	}
	r.examined = map[string][]int{challenge.Spec.Token: examined}
	const finding = "service-not-running"
	if !slices.Contains(report.IDs(), finding) {
		return "", fmt.Errorf("check reports %v, want %s", report.IDs(), finding)
	}
	return fmt.Sprintf("Challenge: %s\ncheck: %s: %s", reason, finding, strings.Join(report.Texts(finding), "\n")), nil
}

// apply applies the rendered ClusterIssuer and Certificate.
func (r *Rehearsal) apply(ctx context.Context) error {
	program, err := lab.BuildCommand(ctx, "oc-http01")
	if err != nil {
		return err
	}
	directory, _ := r.lab.Internet.Directory()
	rendered := filepath.Join(r.lab.Dir, "rendered")
	if _, err := lab.Output(ctx, nil, "", program, "render", "--layered", "--certificate", "--issuer", directory,
		"--cluster-domain", r.lab.Domain, "--output-dir", rendered); err != nil {
		return fmt.Errorf("render the certificate: %w", err)
	}
	pod := r.lab.Pods[0]
	for _, arguments := range [][]string{
		{"apply", "--server-side", "-f", filepath.Join(rendered, "20-certificate", "issuer.yaml")},
		{"wait", "clusterissuer/" + issuerName, "--for=condition=Ready", "--timeout=4m"},
		{"apply", "--server-side", "-f", filepath.Join(rendered, "20-certificate", "certificate.yaml")},
	} {
		r.began = time.Now()
		arguments = append(arguments, "--kubeconfig="+filepath.Join(pod.Dir, "kubeconfig"))
		if _, err := pod.Run(ctx, r.Programs.Kubectl, arguments...); err != nil {
			return err
		}
	}
	return nil
}

// certificateSpec returns the spec of a Certificate.
func certificateSpec(secret, issuer string, names ...string) cmapi.CertificateSpec {
	return cmapi.CertificateSpec{
		SecretName: secret, DNSNames: names,
		PrivateKey: &cmapi.CertificatePrivateKey{
			Algorithm: cmapi.ECDSAKeyAlgorithm, Size: 256,
			RotationPolicy: cmapi.RotationPolicyAlways,
		},
		IssuerRef: cmmeta.IssuerReference{Kind: cmapi.ClusterIssuerKind, Name: issuer, Group: "cert-manager.io"},
	}
}

// startService starts the service on every control-plane node and waits for the first
// certificate.
func (r *Rehearsal) startService(ctx context.Context) (string, error) {
	for _, m := range r.lab.ControlPlane {
		s, err := m.StartService(ctx, lab.ServiceOptions{Binary: r.Binary, Config: r.config(m, "")})
		if err != nil {
			return "", err
		}
		r.services = append(r.services, s)
	}
	started := time.Now()
	holder, err := r.holder(ctx)
	if err != nil {
		return "", err
	}
	if r.Layout.Compact {
		if err := r.apply(ctx); err != nil {
			return "", err
		}
	}
	if err := r.awaitRevision(ctx, 1); err != nil {
		return "", err
	}
	text, err := r.verifySecret(ctx)
	if err != nil {
		return "", err
	}
	seen, err := r.services[holder.Index].AwaitReason(ctx, "Serving")
	if err != nil {
		return "", err
	}
	if accepted := seen.Hosts.Names; !slices.Equal(accepted, []string{r.apiName()}) {
		return "", fmt.Errorf("challenges are accepted for %q", accepted)
	}
	return fmt.Sprintf("%s serves %s only; ready %.0f s after the service: %s", holder.Name, r.apiName(),
		time.Since(started).Seconds(), text), nil
}

// config returns the configuration of the service on a node.
func (r *Rehearsal) config(m *lab.ControlPlaneNode, more string) string {
	return m.DefaultConfig() + "metrics: {listenAddress: \":" + strconv.Itoa(metricsPort) + "\"}\n" + more
}

// holder waits until the service on the node that holds the API VIPs serves, and returns
// the node.
func (r *Rehearsal) holder(ctx context.Context) (*lab.ControlPlaneNode, error) {
	m, err := r.lab.VIPHolder(ctx, r.lab.API.Both()[0])
	if err != nil {
		return nil, err
	}
	_, err = r.services[m.Index].AwaitReason(ctx, "Serving")
	return m, err
}

// awaitRevision waits until the Certificate is ready with a revision.
func (r *Rehearsal) awaitRevision(ctx context.Context, revision int) error {
	return lab.Within(ctx, issueLimit, fmt.Sprintf("revision %d of the Certificate", revision),
		func(ctx context.Context) error {
			c, err := r.cluster.CertManager.CertmanagerV1().Certificates(cluster.ConfigNamespace).Get(ctx, certificateName,
				metav1.GetOptions{})
			if err != nil {
				return err
			}
			if state := certificateState(c); state != "ready" || c.Status.Revision == nil || *c.Status.Revision != revision {
				return fmt.Errorf("it is %s: %+v", state, c.Status)
			}
			return nil
		})
}

// renew moves the VIPs and has cert-manager renew the certificate.
func (r *Rehearsal) renew(ctx context.Context) (string, error) {
	old, err := r.holder(ctx)
	if err != nil {
		return "", err
	}
	if err := old.StopKeepalived(ctx); err != nil {
		return "", err
	}
	if err := r.lab.AwaitVIPs(ctx); err != nil {
		return "", err
	}
	holder, err := r.holder(ctx)
	if err != nil {
		return "", err
	}
	if err := r.deactivateAuthorizations(ctx); err != nil {
		return "", err
	}
	r.began = time.Now()
	// The renewal is due 5 s from now.
	certificate, _, err := r.readSecret(ctx)
	if err != nil {
		return "", err
	}
	if err := r.setRenewBefore(ctx, certificate.NotAfter.Sub(r.began.Add(5*time.Second)).Round(time.Second)); err != nil {
		return "", err
	}
	if err := r.awaitRevision(ctx, 2); err != nil {
		return "", err
	}
	// Without this, the next renewal is due soon.
	if err := r.setRenewBefore(ctx, 0); err != nil {
		return "", err
	}
	before := r.serial
	text, err := r.verifySecret(ctx)
	if err != nil {
		return "", err
	}
	if r.serial == before {
		return "", fmt.Errorf("the certificate %s was not renewed", before)
	}
	return fmt.Sprintf("from %s to %s: %s", old.Name, holder.Name, text), nil
}

// deactivateAuthorizations has the CA challenge the name again: a CA may reuse a valid
// authorization, and Pebble does so for one order in a hundred.
func (r *Rehearsal) deactivateAuthorizations(ctx context.Context) error {
	secret, err := r.cluster.Kube.CoreV1().Secrets(cluster.OperandNamespace).Get(ctx, cluster.AccountSecret(issuerName),
		metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the account's key: %w", err)
	}
	parsed, err := keyutil.ParsePrivateKeyPEM(secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return fmt.Errorf("parse the account's key: %w", err)
	}
	key, is := parsed.(crypto.Signer)
	if !is {
		return fmt.Errorf("the account's key is a %T", parsed)
	}
	orders, err := r.cluster.CertManager.AcmeV1().Orders(cluster.ConfigNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the Orders: %w", err)
	}
	var urls []string
	for _, o := range orders.Items {
		for _, a := range o.Status.Authorizations {
			urls = append(urls, a.URL)
		}
	}
	return r.lab.Internet.Deactivate(ctx, key, urls)
}

// setRenewBefore sets or removes renewBefore of the Certificate.
func (r *Rehearsal) setRenewBefore(ctx context.Context, d time.Duration) error {
	value := "null"
	if d > 0 {
		value = `"` + d.String() + `"`
	}
	_, err := r.cluster.CertManager.CertmanagerV1().Certificates(cluster.ConfigNamespace).Patch(ctx, certificateName,
		types.MergePatchType, []byte(`{"spec":{"renewBefore":`+value+`}}`), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("set renewBefore: %w", err)
	}
	return nil
}

func (r *Rehearsal) certManagerLog() string {
	return filepath.Join(r.lab.Pods[0].Dir, "cert-manager.log")
}

// end stops the services and compares each ruleset with the earlier one.
func (r *Rehearsal) end(ctx context.Context) (string, error) {
	for _, s := range r.services {
		if err := s.Stop(ctx); err != nil {
			return "", err
		}
	}
	var ended []string
	for i, m := range r.lab.ControlPlane {
		after, err := m.Ruleset(ctx)
		if err != nil {
			return "", err
		}
		if after != r.before[m.Name] {
			return "", fmt.Errorf("the ruleset of %s changed\nbefore:\n%s\nafter:\n%s", m.Name, r.before[m.Name], after)
		}
		lines, err := challengeLines(r.services[i].Log, "event=challenge-ended")
		if err != nil {
			return "", err
		}
		ended = append(ended, lines...)
	}
	for _, line := range ended {
		if !strings.Contains(line, "CA (Pebble) 3/3 → 200") || !strings.Contains(line, "self check ok") &&
			!strings.Contains(line, "last → 200") {
			return "", fmt.Errorf("the journal has %q", line)
		}
	}
	if len(ended) != 2 {
		return "", fmt.Errorf("the journal has %d challenges, want 2: %q", len(ended), ended)
	}
	return fmt.Sprintf("%d rulesets as before; journal:\n%s", len(r.lab.ControlPlane), strings.Join(ended, "\n")), nil
}

// readSecretData returns the data of the Certificate's Secret.
func (r *Rehearsal) readSecretData(ctx context.Context) (map[string][]byte, error) {
	secret, err := r.cluster.Kube.CoreV1().Secrets(cluster.ConfigNamespace).Get(ctx, certificateName, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the Secret: %w", err)
	}
	if secret.Type != corev1.SecretTypeTLS {
		return nil, fmt.Errorf("the Secret has type %s", secret.Type)
	}
	return secret.Data, nil
}
