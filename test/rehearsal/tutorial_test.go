// SPDX-License-Identifier: Apache-2.0

package rehearsal_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/cluster"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// letsEncrypt are the hosts of the tutorial's ACME servers.
func letsEncrypt() []string {
	return []string{"acme-v02.api.letsencrypt.org", "acme-staging-v02.api.letsencrypt.org"}
}

// commandBlock is a block of a document that readers run.
var commandBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// The documents whose commands run here, all of them.
const (
	tutorialDocument = "tutorial.md"
	beforeTheSwitch  = "before-the-switch.md"
	expiredRunbook   = "runbooks/certificate-expired.md"
)

// TestTutorial runs the commands of docs/tutorial.md in order in one shell, on a real API
// server with cert-manager's controllers, and the commands of docs/before-the-switch.md where
// it links to them. Then the certificate has expired, and the commands of the runbook follow.
// The shell is on a host outside the cluster, where `oc` is kubectl with the plugin. Agents act
// as OpenShift's operators (configagent), and the lab's CA answers as Let's Encrypt.
// test/suites/delivery installs on hosts that boot.
func TestTutorial(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	w := newWorkstation(t)
	left := map[string][]string{}
	for _, name := range []string{tutorialDocument, beforeTheSwitch, expiredRunbook} {
		for _, block := range commandBlock.FindAllStringSubmatch(document(t, name), -1) {
			left[name] = append(left[name], block[1])
		}
	}
	var serials []string
	for _, want := range w.expectedOutputs() {
		if want.before != nil {
			want.before()
		}
		commands := want.commands
		if want.document != "" {
			if len(left[want.document]) == 0 {
				t.Fatalf("%s has too few blocks of commands", want.document)
			}
			commands, left[want.document] = left[want.document][0], left[want.document][1:]
		}
		began := time.Now()
		out := w.shell.run(t, commands)
		if !regexp.MustCompile(want.output).MatchString(out) {
			t.Fatalf("the output does not match %s:\n$ %s\n%s", want.output, commands, out)
		}
		t.Logf("%.1f s\n$ %s\n%s", time.Since(began).Seconds(),
			strings.ReplaceAll(strings.TrimSpace(commands), "\n", "\n$ "), out)
		serials = append(serials, regexp.MustCompile(`serial=\w+`).FindAllString(out, -1)...)
	}
	for name, blocks := range left {
		if len(blocks) > 0 {
			t.Errorf("docs/%s has commands that no test runs: %q", name, blocks)
		}
	}
	if len(serials) != 2 || serials[0] == serials[1] {
		t.Errorf("the API server presented the serials %q, want two", serials)
	}
}

// document returns the text of a document.
func document(t *testing.T, name string) string {
	t.Helper()
	return string(must1(os.ReadFile(filepath.Join("..", "..", "docs", filepath.FromSlash(name))))(t))
}

// workstation is the reader's host, which is on the lab's Internet.
type workstation struct {
	*shared

	t     *testing.T
	dir   string
	name  string // of the API
	shell *shell
}

// expected is what the next block of a document prints, or commands of the test.
type expected struct {
	document, commands, output string
	before                     func() // prepares the block; may be nil
}

// expectedOutputs returns what the blocks print, in order.
func (w *workstation) expectedOutputs() []expected {
	name := regexp.QuoteMeta(w.name)
	trusted := expected{commands: "oc get --raw /readyz", output: `^ok$`}
	stillTrusted := trusted
	stillTrusted.before = w.awaitPresented
	// The same command as in beforeTheSwitch.
	const named = "oc get apiserver cluster -o " +
		"jsonpath='{.spec.servingCerts.namedCertificates[*].servingCertificate.name}'\n"
	return []expected{
		{document: tutorialDocument, output: `^` + name + `\n$`},
		{
			document: tutorialDocument,
			output: `^rendered/10-policy/policy\.yaml .*\n(.*\n)*The cluster uses the entries of \S+/policy\.yaml\.\n` +
				`machineconfig\S*/98-\S+ created\n(.*\n)*` +
				`All nodes of the pool master have the configuration rendered-master-[0-9a-f]{32}\.\n$`,
		},
		{
			document: tutorialDocument,
			output:   `^HTTP/1\.1 400 Bad Request\r\n(.*\r\n)+\r\nOnly /\.well-known/acme-challenge/\* is allowed$`,
		},
		{document: tutorialDocument, output: `^HTTP/1\.[01] (404|503) `},
		{
			document: tutorialDocument,
			output: `^certmanager\S*/cluster serverside-applied\nclusterissuer\S*/api-letsencrypt serverside-applied\n` +
				`clusterissuer\S*/api-letsencrypt condition met\n$`,
		},
		{
			document: tutorialDocument,
			output:   `^certificate\S*/api-certificate serverside-applied\ncertificate\S*/api-certificate condition met\n$`,
		},
		{document: tutorialDocument, output: `(?m)^challenge \S+ for "` + name +
			`": cert-manager's self check from \S+ got 200 from `},
		{document: tutorialDocument, output: `issuer=.*Pebble(.|\n)*notAfter=(.|\n)*DNS:` + name},

		{document: beforeTheSwitch, output: `^Cluster "lab" set\.\n$`},
		trusted,
		{document: beforeTheSwitch, output: `^$`},

		{document: tutorialDocument, output: `^apiserver\S*/cluster patched\n$`},
		{document: tutorialDocument, output: `^$`},
		stillTrusted,
		{commands: named, output: `^api-certificate$`},
		{document: tutorialDocument, output: `^Property "clusters\.lab\.certificate-authority-data" unset\.\n$`},
		{document: tutorialDocument, output: `^clusteroperator\S*/kube-apiserver condition met\n$`},
		{document: tutorialDocument, output: `^issuer=.*Pebble.*\nnotAfter=.*\nserial=\w+\nok$`},
		{document: tutorialDocument, output: `(?m)^api-letsencrypt-staging +pending +valid$`},
		{document: tutorialDocument, output: `^(.* deleted.*\n){3}$`},
		{
			document: tutorialDocument,
			output:   `^certificate\S*/api-certificate patched\ncertificate\S*/api-certificate condition met\n$`,
		},
		{document: tutorialDocument, output: `^issuer=.*Pebble.*\nnotAfter=.*\nserial=\w+\n$`, before: w.awaitPresented},
		{document: tutorialDocument, output: `Status: "Serving: .* challenges, last 200"`, before: w.awaitStatus},

		{document: expiredRunbook, output: `issuer=.*lab-expired-ca`, before: w.expire},
		{commands: `oc config set-cluster lab --insecure-skip-tls-verify=true`, output: `set\.\n$`}, // of its step 2
		{document: expiredRunbook, output: `node_firewall(.|\n)*expired on(.|\n)*` + expiredRunbook + `(.|\n)*exit code 3`},
		{document: expiredRunbook, output: `condition met\n$`, before: w.openFirewall},
		{document: expiredRunbook, output: `issuer=.*Pebble(.|\n)*✓ certificate`, before: w.awaitPresented},
		{commands: w.renewalByFinding(), output: `^certificate\S*/api-certificate patched\n$`},
	}
}

// renewalByFinding returns the command of the finding about an expired certificate that requests another one.
func (w *workstation) renewalByFinding() string {
	w.t.Helper()
	out := must1(exec.CommandContext(run, binary, "explain", "certificate-expired", "-o", "json").Output())(w.t)
	var explained struct{ Findings []struct{ Commands []string } }
	must(w.t, json.Unmarshal(out, &explained))
	commands := explained.Findings[0].Commands
	return strings.ReplaceAll(commands[len(commands)-1], "{name}", w.name)
}

// newWorkstation starts a cluster in which the tutorial has not begun yet.
func newWorkstation(t *testing.T) *workstation {
	t.Helper()
	programs := must1(cluster.Build(run))(t)
	w := &workstation{shared: &shared{}, t: t, dir: t.TempDir()}
	w.lab = must1(lab.New(run, lab.WithCertificateLifetime(lifetime)))(t)
	w.name = "api." + w.lab.Domain
	w.closeAtEnd(t)
	trust := w.serveLetsEncrypt()
	must(t, w.lab.Internet.SetName(run, w.name, w.lab.API))
	for _, m := range w.lab.ControlPlane {
		must(t, m.LoadNodeRules(run))
		must(t, m.WriteAPIServerURL("api-int."+w.lab.Domain))
		must(t, m.UseDNS())
	}
	w.cluster = must1(cluster.Start(run, w.lab, programs, cluster.TrustACME(trust)))(t)
	w.createOpenShift()
	must(t, w.cluster.Operate(run, w.install))
	w.shell = w.newShell(programs.Kubectl)
	return w
}

// serveLetsEncrypt makes the lab's CA answer as Let's Encrypt, and returns the CA of its
// server's certificate.
func (w *workstation) serveLetsEncrypt() (trust []byte) {
	w.t.Helper()
	internet := w.lab.Internet
	authority := must1(lab.NewAuthority("ISRG Root X1"))(w.t)
	identity := must1(authority.Issue(lab.ServerCertificate{Names: letsEncrypt()}))(w.t)
	serveACME(w.t, w.lab, netip.AddrPortFrom(internet.Addresses.V4, 443), identity, func(to http.Handler) http.Handler {
		return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/directory" {
				r.URL.Path = "/dir" // Pebble's
			}
			to.ServeHTTP(out, r)
		})
	})
	for _, name := range letsEncrypt() {
		must(w.t, internet.SetName(run, name, lab.Pair{V4: internet.Addresses.V4}))
	}
	return authority.Certificate()
}

// createOpenShift creates OpenShift's CRDs, and the objects that each cluster has.
func (w *workstation) createOpenShift() {
	w.t.Helper()
	dir := must1(cluster.Module(run, ".", "github.com/openshift/api"))(w.t)
	must(w.t, w.cluster.CreateCRDs(run,
		filepath.Join(dir, "config/v1/zz_generated.crd-manifests/*_apiservers-Default.crd.yaml"),
		filepath.Join(dir, "config/v1/zz_generated.crd-manifests/*_dnses-Default.crd.yaml"),
		filepath.Join(dir, "config/v1/zz_generated.crd-manifests/*_clusteroperators.crd.yaml"),
		filepath.Join(dir, "machineconfiguration/v1/zz_generated.crd-manifests/*_machineconfigs.crd.yaml"),
		filepath.Join(dir, "machineconfiguration/v1/zz_generated.crd-manifests/*_machineconfigpools-SelfManagedHA.crd.yaml"),
		filepath.Join(dir, "operator/v1/zz_generated.crd-manifests/*_machineconfigurations.crd.yaml"),
		filepath.Join("testdata", "certmanagers.crd.yaml"),
	))
	client := must1(dynamic.NewForConfig(w.cluster.Config))(w.t)
	for _, one := range []struct {
		group, resource, kind, name string
		spec, status                map[string]any
	}{
		{"config.openshift.io", "dnses", "DNS", "cluster", map[string]any{"baseDomain": w.lab.Domain}, nil},
		{
			"config.openshift.io", "apiservers", "APIServer", "cluster",
			map[string]any{"audit": map[string]any{"profile": "Default"}},
			nil,
		},
		{"config.openshift.io", "clusteroperators", "ClusterOperator", "kube-apiserver", map[string]any{}, map[string]any{
			"conditions": []any{map[string]any{
				"type": "Progressing", "status": "False",
				"lastTransitionTime": "2026-01-01T00:00:00Z",
			}},
		}},
		{"machineconfiguration.openshift.io", "machineconfigpools", "MachineConfigPool", "master", map[string]any{}, nil},
		{
			"operator.openshift.io", "machineconfigurations", "MachineConfiguration", "cluster",
			map[string]any{"managementState": "Managed"},
			nil,
		},
	} {
		resource := client.Resource(schema.GroupVersionResource{Group: one.group, Version: "v1", Resource: one.resource})
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": one.group + "/v1", "kind": one.kind, "metadata": map[string]any{"name": one.name}, "spec": one.spec,
		}}
		must(w.t, lab.Eventually(run, "the resource "+one.resource, func(ctx context.Context) error {
			created, err := resource.Create(ctx, object.DeepCopy(),
				metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
			if apierrors.IsAlreadyExists(err) {
				created, err = resource.Get(ctx, one.name, metav1.GetOptions{})
			}
			if err == nil && one.status != nil {
				created.Object["status"] = one.status
				_, err = resource.UpdateStatus(ctx, created, metav1.UpdateOptions{})
			}
			return err
		}))
	}
}

// install starts the service on each control-plane node. Later configurations are the same for it.
func (w *workstation) install(ctx context.Context) error {
	if w.holder != nil {
		return nil
	}
	for _, m := range w.lab.ControlPlane {
		s, err := m.StartService(ctx, lab.ServiceOptions{Binary: binary})
		if err != nil {
			return err
		}
		w.services = append(w.services, s)
	}
	var err error
	if w.holder, err = w.lab.VIPHolder(ctx, w.lab.API.Both()[0]); err != nil {
		return err
	}
	_, err = w.services[w.holder.Index].AwaitReason(ctx, "Serving")
	return err
}

// awaitPresented waits until each API server presents the certificate of the Secret, which
// cert-manager may be about to renew.
func (w *workstation) awaitPresented() {
	w.t.Helper()
	secrets := w.cluster.Kube.CoreV1().Secrets(cluster.ConfigNamespace)
	w.awaitPair(func(ctx context.Context) (tls.Certificate, error) {
		secret, err := secrets.Get(ctx, "api-certificate", metav1.GetOptions{})
		if err != nil {
			return tls.Certificate{}, err
		}
		return tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
	})
}

// awaitPair waits until each API server presents a certificate.
func (w *workstation) awaitPair(pair func(context.Context) (tls.Certificate, error)) {
	w.t.Helper()
	for _, a := range w.cluster.APIServers {
		must(w.t, lab.Within(run, issueLimit, "the certificate on "+a.Node.Name, func(ctx context.Context) error {
			want, err := pair(ctx)
			if err != nil {
				return err
			}
			conn, err := w.lab.Gateway.Dial(ctx, "tcp", netip.AddrPortFrom(a.Node.Addresses.V4, 6443).String())
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			// only its serial number counts
			client := tls.Client(conn, &tls.Config{ServerName: w.name, InsecureSkipVerify: true})
			if err := client.HandshakeContext(ctx); err != nil {
				return err
			}
			if got := client.ConnectionState().PeerCertificates[0].SerialNumber; got.Cmp(want.Leaf.SerialNumber) != 0 {
				return fmt.Errorf("it presents %x, want %x", got, want.Leaf.SerialNumber)
			}
			return nil
		}))
	}
}

// expire has the API servers present a certificate that expired two days ago. The cause of
// that is a firewall of the node, which drops the redirected connections.
func (w *workstation) expire() {
	w.t.Helper()
	end := time.Now().Add(-48 * time.Hour)
	identity := must1(must1(lab.NewAuthority("lab-expired-ca"))(w.t).Issue(
		lab.ServerCertificate{Names: []string{w.name}, NotBefore: end.Add(-90 * 24 * time.Hour), NotAfter: end}))(w.t)
	for _, a := range w.cluster.APIServers {
		must(w.t, a.Present(identity.Chain, identity.Key))
	}
	w.awaitPair(func(context.Context) (tls.Certificate, error) { return tls.X509KeyPair(identity.Chain, identity.Key) })
	const rules = "table inet node_firewall {\n chain input { type filter hook input priority 1; tcp dport 8888 " +
		"drop; }\n}\n"
	must1(w.holder.Input(run, rules, "nft", "-f", "-"))(w.t)
}

// openFirewall removes the firewall of expire.
func (w *workstation) openFirewall() {
	w.t.Helper()
	must1(w.holder.Run(run, "nft", "delete", "table", "inet", "node_firewall"))(w.t)
}

// statusFile is what `systemctl status` prints on a node.
func statusFile(dir string) string { return filepath.Join(dir, "systemctl-status") }

// awaitStatus waits until the service reports a challenge to systemd, and writes what
// `systemctl status` prints.
func (w *workstation) awaitStatus() {
	w.t.Helper()
	s := w.services[w.holder.Index]
	must(w.t, lab.Eventually(run, "the status of the service", func(context.Context) error {
		if text := s.Notifications.Status(); !strings.Contains(text, "challenges, last 200") {
			return errors.New(text)
		}
		return nil
	}))
	must(w.t, os.WriteFile(statusFile(w.holder.Dir), []byte(`     Status: "`+s.Notifications.Status()+"\"\n"), 0o600))
}

// The programs of the reader's host. curl, openssl and kubectl run on the lab's Internet, with
// its DNS, and trust the lab's CA as other hosts trust Let's Encrypt. `oc debug` is not in
// kubectl: it prints the log of the node's service or its status for systemd, or runs check there.
const workstationPrelude = `set -euo pipefail
outside() {
	nsenter --net="/run/netns/$NAMESPACE" unshare --mount -- \
		sh -c 'mount --bind "$RESOLV" /etc/resolv.conf && exec "$@"' sh "$@"
}
curl() {
	local header=()
	# Anonymous clients may read /readyz in OpenShift.
	if [[ "$*" = *:6443* ]]; then header=(--header "Authorization: Bearer $TOKEN"); fi
	outside curl --cacert "$ROOTS" "${header[@]}" "$@"
}
openssl() {
	if [ "$1" = s_client ]; then outside "$OPENSSL" "$@"; else SSL_CERT_FILE="$ROOTS" "$OPENSSL" "$@"; fi
}
oc() {
	case "$*" in
	"http01 "*) shift; "$PLUGIN" "$@" ;;
	"debug node/master0 -- chroot /host journalctl "*)
		sed -n 's/.* msg="\(\([^"\\]\|\\.\)*\)".*/\1/p' "$NODE/http01-proxyd.log" | sed 's/\\"/"/g' ;;
	"debug node/master0 -- chroot /host systemctl status http01-proxyd") cat "$NODE/systemctl-status" ;;
	"debug node/master0 -- chroot /host http01-proxyd check")
		nsenter --net="/run/netns/$NODE_NAMESPACE" $CHECK || echo "exit code $?" ;;
	*) HOME="$WORKSTATION" SSL_CERT_FILE="$ROOTS" outside "$KUBECTL" "$@" ;;
	esac
}
export -f outside curl openssl oc
`

// image is the reference of an image, which no node pulls here.
const image = "registry.example.com/http01-proxyd@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// newShell starts the reader's shell with a kubeconfig as the installer writes it.
func (w *workstation) newShell(kubectl string) *shell {
	w.t.Helper()
	kubeconfig := filepath.Join(w.dir, "kubeconfig")
	must(w.t, w.cluster.WriteKubeconfig(kubeconfig, "https://"+w.name+":6443"))
	roots := filepath.Join(w.dir, "roots.pem")
	must(w.t, os.WriteFile(roots, []byte(must1(w.lab.Internet.Root(run))(w.t)), 0o600))
	must(w.t, w.lab.Internet.UseDNS())
	prelude := filepath.Join(w.dir, "workstation.bash")
	must(w.t, os.WriteFile(prelude, []byte(workstationPrelude), 0o600))
	// Scripts of the tutorial call them too.
	bin := filepath.Join(w.dir, "bin")
	must(w.t, os.Mkdir(bin, 0o700))
	for _, name := range []string{"oc", "openssl"} {
		must(w.t, os.WriteFile(filepath.Join(bin, name),
			[]byte("#!/bin/bash\n. '"+prelude+"'\n"+name+" \"$@\"\n"), 0o700))
	}
	bash := startShell(w.t, w.dir, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "WORKSTATION="+w.dir,
		"KUBECONFIG="+kubeconfig, "KUBECTL="+kubectl, "ROOTS="+roots, "TOKEN="+w.cluster.Config.BearerToken, "IMAGE="+image,
		"NAMESPACE="+w.lab.Internet.Namespace, "RESOLV="+w.lab.Internet.HostFile("resolv.conf"), "NODE="+
			w.lab.ControlPlane[0].Dir,
		"NODE_NAMESPACE="+w.lab.ControlPlane[0].Namespace, "API="+w.name,
		"CHECK="+binary+" check --name "+w.name+" "+strings.Join(w.lab.ControlPlane[0].CheckFlags(), " "),
		"OPENSSL="+must1(exec.LookPath("openssl"))(w.t), "PLUGIN="+must1(lab.BuildCommand(run, "oc-http01"))(w.t)))
	bash.run(w.t, ". '"+prelude+"'")
	return bash
}

// shell is a bash that runs one block after the other.
type shell struct {
	in  io.Writer
	out *bufio.Reader
}

// blockEnd is printed after each block.
const blockEnd = "--- end of the block ---\n"

func startShell(t *testing.T, dir string, env []string) *shell {
	t.Helper()
	cmd := exec.CommandContext(run, "bash")
	cmd.Dir, cmd.Env = dir, env
	in := must1(cmd.StdinPipe())(t)
	out := must1(cmd.StdoutPipe())(t)
	cmd.Stderr = cmd.Stdout
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // a failed block has ended it
	})
	return &shell{in, bufio.NewReader(out)}
}

// clientLog matches a line that client-go logs on standard error, for instance when "oc wait" ends while
// an event arrives.
var clientLog = regexp.MustCompile(`^[IWE][0-9]{4} [0-9:.]+ `)

// run runs a block and returns its output. A failed command ends the shell. The block gets no
// input: it would read the next block.
func (s *shell) run(t *testing.T, block string) string {
	t.Helper()
	_, err := io.WriteString(s.in, "{\n"+block+"\n} </dev/null\nprintf '%s' '"+blockEnd+"'\n")
	var all strings.Builder
	for err == nil && !strings.HasSuffix(all.String(), blockEnd) {
		var line string
		if line, err = s.out.ReadString('\n'); !clientLog.MatchString(line) {
			all.WriteString(line)
		}
	}
	if err != nil {
		t.Fatalf("%v\n$ %s\n%s", err, block, all.String())
	}
	return strings.TrimSuffix(all.String(), blockEnd)
}

// serveACME starts a server in front of the lab's CA until the test ends. wrap changes its
// responses.
func serveACME(t *testing.T, l *lab.Lab, address netip.AddrPort, identity lab.Identity,
	wrap func(http.Handler) http.Handler,
) netip.AddrPort {
	t.Helper()
	directory, bundle := l.Internet.Directory()
	pebble := must1(url.Parse(directory))(t)
	certificate := must1(identity.TLS())(t)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	// The CA's URLs contain the host of the request, which stays.
	to := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = pebble.Scheme, pebble.Host, r.In.Host
		},
		Transport: &http.Transport{
			DialContext: l.Internet.Dial, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		},
	}
	listener := must1(l.Internet.Listen(run, address.String()))(t)
	stop := lab.Serve(listener, &tls.Config{Certificates: []tls.Certificate{*certificate}, MinVersion: tls.VersionTLS12},
		wrap(to))
	t.Cleanup(func() { must(t, stop()) })
	return must1(netip.ParseAddrPort(listener.Addr().String()))(t)
}
