// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/condition"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/nodes"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

var update = flag.Bool("update", false, "write the files in testdata (default false)")

var now = time.Date(2026, 3, 4, 12, 30, 0, 0, time.UTC)

const token = "evaGxfADs6pSRb2LAv9IZf"

// scenario has objects of testdata/objects.yaml, the lifetime of the Secret, and what the holder of the VIP saw.
type scenario struct {
	objects  string // names, separated by blanks
	notAfter time.Time
	status   int // of the last request of cert-manager for the token; 0: none
	findings []string
	outcome  report.CheckOutcome
}

func scenarios() map[string]scenario {
	const (
		pending = "infrastructure apiserver-plain issuer certificate-issuing request-pending order-pending "
		errored = "infrastructure apiserver issuer certificate-failed request-errored "
		failed  = "infrastructure apiserver issuer certificate-failed request-failed "
		solver  = " pod service ingress route"
	)
	missing := "named-certificate-missing"
	valid, expired := now.Add(60*day), now.Add(-5*time.Minute)
	none := time.Time{}
	return map[string]scenario{
		"healthy":      {"infrastructure apiserver issuer certificate request order", valid, 0, nil, "ok"},
		"reused":       {"infrastructure apiserver issuer certificate request order-reused", valid, 0, nil, "ok"},
		"not-switched": {"infrastructure apiserver-plain issuer certificate request order", valid, 0, []string{"named-certificate-not-used"}, "warning"},
		"outdated": {
			strings.Replace(pending, "order-pending", "order-outdated", 1) + "challenge-503" + solver, none, 503,
			[]string{"route-missing", "order-outdated"},
			"problem",
		},
		"claimed": {pending + "challenge-503 pod service ingress route-claimed", none, 503, []string{"route-missing"}, "problem"},
		"policy": {
			pending + "challenge-503 policy-deny" + solver, none, 0, []string{"solver-port-blocked"}, "problem",
		},
		"permitted": {
			pending + "challenge-503 policy-deny policy-solver" + solver, none, 0, []string{"challenge-pending"}, "problem",
		},
		"gateway":   {pending + "challenge-gateway", none, 0, []string{"solver-is-gateway"}, "problem"},
		"no-solver": {pending + "challenge-503", none, 0, []string{"challenge-pending"}, "problem"},
		"paused":    {errored + "order-paused", valid, 0, []string{"ca-name-paused"}, "problem"},
		"expired": {
			failed + "order-invalid challenge-invalid", expired, 0,
			[]string{"named-certificate-expired", "order-failed"},
			"problem",
		},
		"staging": {"infrastructure apiserver issuer-staging certificate request order", valid, 0, []string{"issuer-staging"}, "problem"},
		"no-issuer": {
			"infrastructure apiserver certificate-issuing", none, 0, []string{missing, "issuer-not-ready"}, "problem",
		},
		"account":  {"infrastructure apiserver issuer-not-ready certificate-issuing", none, 0, []string{missing, "issuer-not-ready"}, "problem"},
		"stuck":    {"infrastructure apiserver-plain issuer certificate-stuck", none, 0, []string{"certificate-not-ready"}, "problem"},
		"renewing": {"infrastructure apiserver issuer certificate-issuing request-pending order-pending", valid, 0, nil, "ok"},
		"absent":   {"infrastructure apiserver issuer", valid, 0, []string{"certificate-object-missing"}, "problem"},
		"twice": {
			"infrastructure apiserver-twice issuer certificate request order", valid, 0,
			[]string{"named-certificate-name-twice", missing},
			"problem",
		},
	}
}

// TestExamine compares the report about each scenario with the one in testdata, which the text form is tested
// with. The findings are in this table.
func TestExamine(t *testing.T) {
	t.Parallel()
	for name, s := range scenarios() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, err := Read(t.Context(), fakeOC(t, s), "")
			if err != nil {
				t.Fatal(err)
			}
			r := Examine(o, hosts(s.status), now)
			var ids []string
			for _, f := range r.Findings {
				ids = append(ids, f.ID)
			}
			if diff := cmp.Diff(s.findings, ids); diff != "" || r.Outcome != s.outcome {
				t.Errorf("outcome %s (-want +got):\n%s", r.Outcome, diff)
			}
			compare(t, name, r)
		})
	}
}

// compare compares a report with the one in testdata.
func compare(t *testing.T, name string, r report.ClusterCertificate) {
	t.Helper()
	got, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(path, append(got, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// TestRecorded compares the report about what oc and the nodes printed in the rehearsal (a real API server, Pebble, and
// cert-manager 1.20 and 1.21), without the fields that nothing reads.
func TestRecorded(t *testing.T) {
	t.Parallel()
	for name, finding := range map[string]string{
		"self-check": "challenge-pending", "no-route": "route-missing", "wrong-class": "route-missing",
		"invalid-order": "order-failed", "rate-limited": "ca-rate-limited", "denied": "request-denied",
		"not-approved": "request-not-approved", "issued": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("testdata", "recorded", name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			var record struct {
				Name    string           `json:"name"`
				Time    time.Time        `json:"time"`
				Objects []map[string]any `json:"objects"`
				Nodes   []struct {
					Name   string        `json:"name"`
					Report report.Report `json:"report"`
				} `json:"nodes"`
			}
			if err := yaml.Unmarshal(text, &record); err != nil {
				t.Fatal(err)
			}
			o, err := Read(t.Context(), printer(record.Objects), record.Name)
			if err != nil || len(o.NotExamined) > 0 {
				t.Fatalf("%v, %q", err, o.NotExamined)
			}
			var hosts []condition.HostReport
			for _, n := range record.Nodes {
				hosts = append(hosts, condition.HostReport{Name: n.Name, Report: n.Report, Condition: n.Report.Condition()})
			}
			r := Examine(o, hosts, record.Time)
			var ids []string
			for _, f := range r.Findings {
				ids = append(ids, f.ID)
			}
			if strings.Join(ids, " ") != finding {
				t.Errorf("%q", ids)
			}
			compare(t, name, r)
		})
	}
}

// documents are the objects of testdata/objects.yaml by name.
func documents(t *testing.T) map[string]map[string]any {
	t.Helper()
	text, err := os.ReadFile("testdata/objects.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]any{}
	for _, part := range strings.Split(string(text), "\n--- # ")[1:] {
		name, body, _ := strings.Cut(part, "\n")
		var o map[string]any
		if err := yaml.Unmarshal([]byte(body), &o); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = o
	}
	return all
}

// plural is the name of a kind in the arguments of oc.
func plural(kind string) string {
	kind = strings.ToLower(kind)
	switch {
	case strings.HasSuffix(kind, "y"):
		return strings.TrimSuffix(kind, "y") + "ies"
	case strings.HasSuffix(kind, "ss"):
		return kind + "es"
	}
	return kind + "s"
}

// fakeOC prints the objects of a scenario.
func fakeOC(t *testing.T, s scenario) Getter {
	t.Helper()
	all := documents(t)
	var objects []map[string]any
	for name := range strings.FieldsSeq(s.objects) {
		if all[name] == nil {
			t.Fatalf("no object %s", name)
		}
		objects = append(objects, all[name])
	}
	if !s.notAfter.IsZero() {
		objects = append(objects, map[string]any{
			"kind": "Secret", "type": tlsType, "metadata": map[string]any{
				"namespace": Namespace, "name": "api-certificate", "creationTimestamp": "2026-01-01T08:02:00Z",
			},
			"data": map[string][]byte{"tls.crt": certificate(t, s.notAfter, "api.example.com"), "tls.key": {}},
		})
	}
	return printer(objects)
}

// printer prints the objects of the kinds and in the namespace that the arguments of oc name. A cluster without
// objects of a kind of OpenShift does not know the kind.
func printer(objects []map[string]any) Getter {
	return func(_ context.Context, args ...string) ([]byte, error) {
		namespace := ""
		if i := slices.Index(args, "-n"); i >= 0 {
			namespace = args[i+1]
		}
		items := []any{}
		for resource := range strings.SplitSeq(strings.TrimSuffix(args[0], "/cluster"), ",") {
			resource, group, _ := strings.Cut(resource, ".")
			known := !strings.HasSuffix(group, "openshift.io")
			for _, o := range objects {
				metadata := o["metadata"].(map[string]any)
				if plural(o["kind"].(string)) != resource {
					continue
				}
				known = true
				inNamespace := namespace == "" || metadata["namespace"] == namespace
				if inNamespace && (resource != "secrets" || slices.Contains(args, metadata["name"].(string))) {
					items = append(items, o)
				}
			}
			if !known {
				return nil, nodes.ErrUnknownKind
			}
		}
		return json.Marshal(map[string]any{"kind": "List", "items": items})
	}
}

// certificate is a certificate of 90 days for names.
func certificate(t *testing.T, notAfter time.Time, names ...string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: notAfter.Add(-90 * day), NotAfter: notAfter, DNSNames: names,
	}, &x509.Certificate{Subject: pkix.Name{CommonName: "R11"}}, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// hosts are a holder of the VIP that has answered cert-manager's self check with a status, and another host.
func hosts(status int) []condition.HostReport {
	vip := report.VIP{Address: netip.MustParseAddr("192.0.2.5"), State: report.VIPHeld}
	holder := condition.HostReport{Name: "master0", Report: report.Report{
		VIPs: []report.VIP{vip}, StateSince: now.Add(-3 * time.Hour),
	}}
	holder.Condition.Reason = report.Serving
	if status > 0 {
		last := report.RecentChallenge{
			Time: now.Add(-8 * time.Second), VIP: "192.0.2.5", Host: "api.example.com", TokenPrefix: token[:8],
			ClientKind: report.CertManager, Status: status, Upstream: "192.0.2.6:80",
		}
		if status == 503 {
			last.Cause = "route-missing"
		}
		first, other := last, last
		first.Time, other.TokenPrefix = now.Add(-18*time.Second), "other"
		holder.Challenges.Recent = []report.RecentChallenge{other, first, last}
	}
	standby := condition.HostReport{Name: "master1"}
	standby.Condition.Reason = report.Standby
	return []condition.HostReport{holder, standby}
}

// TestReadFails: without the objects, there is an error. Without one kind of them, the rest is shown.
func TestReadFails(t *testing.T) {
	t.Parallel()
	whole := fakeOC(t, scenarios()["claimed"])
	without := func(resource string, err error) Getter {
		return func(ctx context.Context, args ...string) ([]byte, error) {
			if strings.HasPrefix(args[0], resource) {
				return nil, err
			}
			return whole(ctx, args...)
		}
	}
	forbidden := errors.New("forbidden: log in")
	for resource, want := range map[string]string{
		"infrastructures": "cannot find out the name of the API: forbidden: log in: give the name",
		"certificates":    "cannot read the Certificates: forbidden: log in",
	} {
		if _, err := Read(t.Context(), without(resource, forbidden), ""); err == nil || err.Error() != want {
			t.Errorf("%s: %v", resource, err)
		}
	}
	for resource, want := range map[string]string{
		"apiservers":          "the APIServer: forbidden: log in",
		"certificaterequests": "the requests of cert-manager in openshift-config: forbidden: log in",
		"secrets":             "the Secrets in openshift-config: forbidden: log in",
		"networkpolicies":     "the NetworkPolicies in openshift-config: forbidden: log in",
		"routes":              "the Routes in openshift-config: forbidden: log in",
		"pods":                "the solvers in openshift-config: forbidden: log in",
	} {
		o, err := Read(t.Context(), without(resource, forbidden), "")
		if diff := cmp.Diff([]string{want}, o.NotExamined); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", resource, err, diff)
		}
		r := Examine(o, hosts(0), now)
		isMissing := func(o report.ChainObject) bool { return o.Name == "of the solver" }
		if len(r.Objects) == 0 || !slices.Contains(r.NotExamined, want) || slices.ContainsFunc(r.Objects, isMissing) {
			t.Errorf("%s: %+v", resource, r)
		}
	}
	silent := []condition.HostReport{{Name: "master0", Problem: "no JSON document"}}
	for number, all := range [][]condition.HostReport{nil, silent, append(hosts(0), silent...)} {
		o, err := Read(t.Context(), whole, "")
		text := fmt.Sprint(Examine(o, all, now).Findings)
		if err != nil || strings.Contains(text, "The nodes report") != (len(all) > 1) {
			t.Errorf("hosts %d: %v, %s", number, err, text)
		}
	}
	o, err := Read(t.Context(), without("routes", nodes.ErrUnknownKind), "api.example.com")
	if err != nil || len(o.NotExamined) > 0 {
		t.Errorf("a cluster without Routes: %v, %q", err, o.NotExamined)
	}
	if o, err := Read(t.Context(), whole, "other.example.com"); err != nil || o.HasCertificate() {
		t.Errorf("the Certificate is for another name: %v", err)
	}
}

// TestSecretTemplate: oc prints Secrets, in a List or alone, without their keys. It executes templates with the
// objects as maps (k8s.io/cli-runtime, pkg/printers/template.go).
func TestSecretTemplate(t *testing.T) {
	t.Parallel()
	const one = `{"kind": "Secret", "metadata": {"name": "a", "namespace": "ns", "creationTimestamp": "2026-01-01T08:02:00Z",
"annotations": {"x": "y"}}, "type": "kubernetes.io/tls", "data": {"tls.crt": "Y2VydA==", "tls.key": "c2VjcmV0", "ca.crt": "eA=="}}`
	output := template.Must(template.New("output").Parse(secretTemplate))
	for text, want := range map[string]int{
		one: 1, `{"kind": "List", "items": []}`: 0,
		`{"kind": "List", "items": [` + one + `, {"kind": "Secret", "metadata": {"name": "b", "namespace": "ns",
"creationTimestamp": "2026-01-01T08:02:00Z"}, "type": "Opaque"}]}`: 2,
	} {
		var object map[string]any
		if err := json.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := output.Execute(&out, object); err != nil {
			t.Fatal(err)
		}
		var o Objects
		get := func(context.Context, ...string) ([]byte, error) { return []byte(out.String()), nil }
		if err := o.read(t.Context(), get, "secrets"); err != nil || len(o.all) != want {
			t.Fatalf("%v: %d Secrets in %s", err, len(o.all), out.String())
		}
		if strings.Contains(out.String(), "c2VjcmV0") {
			t.Errorf("oc prints the key: %s", out.String())
		}
		if want > 0 {
			a, hasKey := o.all[0], o.all[0].Data["tls.key"] != nil
			if a.Metadata.Name != "a" || a.Type != tlsType || string(a.Data["tls.crt"]) != "cert" || !hasKey {
				t.Errorf("%+v", a)
			}
		}
	}
}

// TestHostile: objects of a cluster with many and long texts are cut, and no text becomes an option of oc.
func TestHostile(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x\x1b[31m", 1<<16)
	var items []string
	for i := range 50 {
		items = append(items, fmt.Sprintf(`{"kind": "Certificate", "metadata": {"name": "c%d", "namespace": "ns"}, "spec": {
"dnsNames": ["api.example.com"], "secretName": "--raw=/x", "issuerRef": {"name": %q}}}`, i, strings.ReplaceAll(long, "\x1b", "")))
	}
	get := func(_ context.Context, args ...string) ([]byte, error) {
		if slices.Contains(args, "--raw=/x") {
			t.Errorf("oc %q", args)
		}
		if strings.HasPrefix(args[0], "apiservers") {
			entry := `{"names": ["api.example.com"], "servingCertificate": {"name": "` + strings.ReplaceAll(long, "\x1b", "") + `"}}`
			return []byte(`{"kind": "APIServer", "spec": {"servingCerts": {"namedCertificates": [` +
				strings.Repeat(entry+",", 99) + entry + "]}}}"), nil
		}
		if strings.HasPrefix(args[0], "certificates") {
			return []byte(`{"kind": "List", "items": [` + strings.Join(items, ",") + "]}"), nil
		}
		return nil, nil
	}
	o, err := Read(t.Context(), get, "api.example.com")
	r := Examine(o, []condition.HostReport{{Name: "m", Problem: long}}, now)
	text, _ := json.Marshal(r)
	if err != nil || len(text) > 1<<20 || len(r.Objects) > 60 {
		t.Errorf("%v: %d objects, %d bytes", err, len(r.Objects), len(text))
	}
}

// TestStrangers: Certificates of other namespaces, which oc prints before, do not hide the one whose Secret the
// APIServer uses. The others are counted.
func TestStrangers(t *testing.T) {
	t.Parallel()
	var objects []map[string]any
	for i := range 2 * maxCertificates {
		objects = append(objects, map[string]any{
			"kind": "Certificate", "metadata": map[string]any{"namespace": "aaa", "name": fmt.Sprintf("c%d", i)},
			"spec": map[string]any{"dnsNames": []string{"api.example.com"}},
		})
	}
	all := documents(t)
	for name := range strings.FieldsSeq(scenarios()["healthy"].objects) {
		objects = append(objects, all[name])
	}
	o, err := Read(t.Context(), printer(objects), "")
	if err != nil || len(o.certificates) != maxCertificates || o.certificates[0].Metadata.Namespace != Namespace {
		t.Fatalf("%v: %+v", err, o.certificates)
	}
	want := []string{"6 Certificates for api.example.com, from aaa/c4 on: the first 5 are examined"}
	if diff := cmp.Diff(want, o.NotExamined); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestBlocking: which NetworkPolicies leave no way to the solver's port.
func TestBlocking(t *testing.T) {
	t.Parallel()
	pod := Object{Metadata: metav1.ObjectMeta{Namespace: "a", Labels: map[string]string{"app": "solver"}}}
	for name, tt := range map[string]struct {
		spec string
		want bool
	}{
		"all pods":           {`{"podSelector": {}, "policyTypes": ["Ingress"]}`, true},
		"without types":      {`{"podSelector": {}}`, true},
		"egress":             {`{"podSelector": {}, "policyTypes": ["Egress"]}`, false},
		"other pods":         {`{"podSelector": {"matchLabels": {"app": "web"}}}`, false},
		"expressions":        {`{"podSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}`, true},
		"any port":           {`{"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}]}`, false},
		"another port":       {`{"podSelector": {}, "ingress": [{"ports": [{"port": 8080}]}]}`, true},
		"UDP":                {`{"podSelector": {}, "ingress": [{"ports": [{"port": 8089, "protocol": "UDP"}]}]}`, true},
		"the port":           {`{"podSelector": {}, "ingress": [{"ports": [{"port": 8080}, {"port": 8089}]}]}`, false},
		"a range":            {`{"podSelector": {}, "ingress": [{"ports": [{"port": 8000, "endPort": 9000}]}]}`, false},
		"the range before":   {`{"podSelector": {}, "ingress": [{"ports": [{"port": 8000, "endPort": 8088}]}]}`, true},
		"the name of a port": {`{"podSelector": {}, "ingress": [{"ports": [{"port": "http"}]}]}`, false},
	} {
		var p Object
		if err := json.Unmarshal([]byte(`{"metadata": {"namespace": "a"}, "spec": `+tt.spec+"}"), &p); err != nil {
			t.Fatal(err)
		}
		if got := blocking([]Object{p}, pod); (len(got) > 0) != tt.want {
			t.Errorf("%s: %v", name, got)
		}
		p.Metadata.Namespace = "b"
		if len(blocking([]Object{p}, pod)) > 0 {
			t.Errorf("%s: in another namespace", name)
		}
	}
}

// TestJudgeNamed: each fault of a Secret in namedCertificates.
func TestJudgeNamed(t *testing.T) {
	t.Parallel()
	good := certificate(t, now.Add(60*day), "api.example.com")
	entry := NamedCertificate{Names: []string{"api.example.com"}}
	entry.Secret.Name = "s"
	const invalid = "named-certificate-invalid"
	keys := func(text []byte) map[string][]byte { return map[string][]byte{"tls.crt": text, "tls.key": nil} }
	for name, tt := range map[string]struct {
		data map[string][]byte
		kind string
		now  time.Time
		want string
	}{
		"good":         {keys(good), tlsType, now, ""},
		"missing":      {nil, "", now, "problem named-certificate-missing"},
		"no key":       {map[string][]byte{"tls.crt": good}, tlsType, now, "problem " + invalid},
		"no text":      {keys([]byte("x")), tlsType, now, "problem " + invalid},
		"no DER":       {keys(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE"})), tlsType, now, "problem " + invalid},
		"another type": {keys(good), "Opaque", now, "warning " + invalid},
		"another name": {keys(certificate(t, now.Add(day), "x.example.com")), tlsType, now, "problem " + invalid},
		"expired":      {keys(good), tlsType, now.Add(61 * day), "problem named-certificate-expired"},
		"no clock":     {keys(good), tlsType, time.Time{}, ""},
	} {
		secrets := []Object{}
		if tt.data != nil {
			secrets = []Object{{Kind: "Secret", Metadata: metav1.ObjectMeta{Namespace: Namespace, Name: "s"}, Type: tt.kind, Data: tt.data}}
		}
		var got []string
		for _, f := range JudgeNamed([]NamedCertificate{entry}, secrets, tt.now) {
			got = append(got, string(f.Level)+" "+string(f.ID))
		}
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestNeedsChallenge: Let's Encrypt reuses authorizations for ever shorter times.
func TestNeedsChallenge(t *testing.T) {
	t.Parallel()
	const production = "https://acme-v02.api.letsencrypt.org/directory"
	for _, tt := range []struct {
		server, profile, renewal string
		after                    time.Duration
		want                     string
	}{
		{production, "", "2026-06-01", 60 * day, report.ChallengeRequired},
		{production, "", "2026-06-01", 20 * day, report.ChallengePossible},
		{production, "classic", "2027-03-01", 20 * day, report.ChallengeRequired},
		{production, "classic", "2027-03-01", 9 * day, report.ChallengePossible},
		{production, "", "2028-03-01", day, report.ChallengeRequired},
		{production, "shortlived", "2026-06-01", 3 * day, report.ChallengeRequired},
		{production, "tlsserver", "2026-06-01", 6 * time.Hour, report.ChallengePossible},
		{"https://acme.zerossl.com/v2/DV90", "", "2026-06-01", 60 * day, report.ChallengeUnknown},
		{"", "", "2026-06-01", 60 * day, report.ChallengeUnknown},
	} {
		renewal, err := time.Parse(time.DateOnly, tt.renewal)
		if err != nil {
			t.Fatal(err)
		}
		got, reason := needsChallenge(tt.server, tt.profile, renewal.Add(-tt.after), renewal)
		if got != tt.want || reason == "" {
			t.Errorf("%+v: %s, %s", tt, got, reason)
		}
	}
}
