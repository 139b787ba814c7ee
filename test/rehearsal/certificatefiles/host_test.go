// SPDX-License-Identifier: Apache-2.0

package certificatefiles

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

const (
	unit     = "http01-certificate-files"
	accounts = "api-certificate" // namespace and Secret
	units    = "/etc/systemd/system/"
)

// distribution is what differs between distributions: paths, and how the API server gets its arguments.
type distribution struct {
	name    string
	mark    string // of its blocks in the document
	target  string
	kubectl string
	server  func(t *testing.T, block string) (arguments, mounts []string)
}

func distributions() []distribution {
	return []distribution{
		{"kubeadm", "kubeadm", "/etc/kubernetes/pki/api-certificate", "/usr/bin/kubectl", kubeadm},
		{"RKE2", "rke2", "/etc/rancher/rke2/api-certificate", "/var/lib/rancher/rke2/bin/kubectl", rke2},
		{"MicroShift", "microshift", "/etc/microshift/api-certificate", "/usr/bin/kubectl", microshift},
	}
}

// kubeadm reads ClusterConfiguration. kubeadm mounts /etc/kubernetes/pki (its
// cmd/kubeadm/app/phases/controlplane/volumes.go).
func kubeadm(t *testing.T, block string) (arguments, mounts []string) {
	t.Helper()
	var o struct {
		APIServer struct {
			ExtraArgs []struct{ Name, Value string }
		}
	}
	must(t, yaml.UnmarshalStrict([]byte(block), &o))
	for _, a := range o.APIServer.ExtraArgs {
		arguments = append(arguments, "--"+a.Name+"="+a.Value)
	}
	return arguments, []string{"/etc/kubernetes/pki:/etc/kubernetes/pki"}
}

// rke2 reads RKE2's config.yaml. RKE2 mounts only whole values that are a file, and extra mounts (ReadFiles and
// addExtraMounts in its pkg/podtemplate/podtemplate.go).
func rke2(t *testing.T, block string) (arguments, mounts []string) {
	t.Helper()
	var o struct {
		Arguments []string `json:"kube-apiserver-arg"`
		Mounts    []string `json:"kube-apiserver-extra-mount"`
	}
	must(t, yaml.UnmarshalStrict([]byte(block), &o))
	for _, a := range o.Arguments {
		arguments = append(arguments, "--"+a)
	}
	for _, m := range o.Mounts {
		from, readOnly := strings.CutSuffix(m, ":ro")
		if !readOnly {
			t.Fatalf("the mount %s is writable", m)
		}
		mounts = append(mounts, from)
	}
	return arguments, mounts
}

// microshift reads MicroShift's config.yaml. Its API server runs in the process of the service, so that it has the
// files of the host.
func microshift(t *testing.T, block string) (arguments, mounts []string) {
	t.Helper()
	var o struct {
		APIServer struct {
			SubjectAltNames   []string
			NamedCertificates []struct {
				Names             []string
				CertPath, KeyPath string
			}
		}
	}
	must(t, yaml.UnmarshalStrict([]byte(block), &o))
	for _, c := range o.APIServer.NamedCertificates {
		arguments = append(arguments, "--tls-sni-cert-key="+c.CertPath+","+c.KeyPath+":"+strings.Join(c.Names, ","))
	}
	return arguments, nil
}

// part returns the paragraphs of a section about the distribution.
func (d distribution) part(t *testing.T, section string) string {
	t.Helper()
	_, rest, found := strings.Cut(section, "\n**"+d.name+"**")
	if !found {
		t.Fatalf("no paragraph about %s in:\n%s", d.name, section)
	}
	rest, _, _ = strings.Cut(rest, "\n**")
	return rest
}

// documented runs commands of the document as root.
func (n *node) documented(t *testing.T, commands string) string {
	t.Helper()
	return must1(n.Run(t.Context(), "bash", "-ec", "cd "+source+"\n"+commands))(t)
}

// set writes the Secret of cert-manager.
func (n *node) set(t *testing.T, id lab.Identity) {
	t.Helper()
	encode := base64.StdEncoding.EncodeToString
	must1(n.Input(t.Context(), fmt.Sprintf("{apiVersion: v1, kind: Secret, type: kubernetes.io/tls, "+
		"metadata: {name: %s, namespace: %s}, data: {tls.crt: %s, tls.key: %s}}", accounts, accounts,
		encode(id.Chain), encode(id.Key)), kubectl, "apply", "--server-side", "--filename=-"))(t)
}

// start starts the unit, and returns the last line of the script.
func (n *node) start(t *testing.T) (line string, err error) {
	t.Helper()
	// systemd limits the number of starts in ten seconds.
	_, _ = n.Run(t.Context(), "systemctl", "reset-failed", unit)
	_, err = n.Run(t.Context(), "systemctl", "start", unit)
	return n.line(t), err
}

// line returns the last line of the script, by the document's command.
func (n *node) line(t *testing.T) string {
	t.Helper()
	all := strings.Split(strings.TrimSpace(consoles(section(t, "4. The files"))[3]), "\n")
	return strings.TrimSpace(n.documented(t, all[len(all)-1]))
}

// copied runs the unit, which copies a pair.
func (n *node) copied(t *testing.T, d distribution) {
	t.Helper()
	line, err := n.start(t)
	must(t, err)
	if !strings.HasPrefix(line, "copied the Secret api-certificate/api-certificate to "+d.target+": notAfter=") {
		t.Fatalf("the script reported %q", line)
	}
}

// serves waits until the API server presents a certificate that a client trusts.
func serves(t *testing.T, root *lab.Authority, id lab.Identity) {
	t.Helper()
	want := must1(id.TLS())(t).Certificate[0]
	begin := time.Now()
	// It reads the files a minute later if it missed an event.
	must(t, lab.Within(t.Context(), 30*time.Second, "the certificate", func(ctx context.Context) error {
		dialer := tls.Dialer{Config: &tls.Config{ServerName: name, RootCAs: root.Pool()}}
		conn, err := dialer.DialContext(ctx, "tcp", address+":6443")
		if err != nil {
			return err
		}
		defer conn.Close()
		if c, is := conn.(*tls.Conn); !is || string(c.ConnectionState().PeerCertificates[0].Raw) != string(want) {
			return errors.New("the API server presents another certificate")
		}
		return nil
	}))
	t.Logf("the API server presented it after %v", time.Since(begin).Round(10*time.Millisecond))
}

// has requires that a link of the target leads to a pair.
func (n *node) has(t *testing.T, d distribution, link string, id lab.Identity) {
	t.Helper()
	got := must1(n.Run(t.Context(), "sh", "-ec", "cd "+path.Join(d.target, link)+"; cat tls.crt tls.key"))(t)
	if got != string(id.Chain)+string(id.Key) {
		t.Fatalf("%s/%s is another pair", d.target, link)
	}
}

// tree lists the target with modes, owners, links and inodes.
func (n *node) tree(t *testing.T, d distribution) string {
	t.Helper()
	return must1(n.Run(t.Context(), "find", d.target, "-printf", "%P %M %u:%g %l %i\n"))(t)
}

// TestDistributions runs the document on a host: the account, the files, the API server's argument, a renewal by the
// timer, refused Secrets, and the return to the previous pair; then the unit's rights.
func TestDistributions(t *testing.T) {
	n := use(t)
	must1(n.Run(t.Context(), "install", kubectl, "/usr/bin/kubectl"))(t)
	for _, commands := range consoles(section(t, "2. The certificate")) {
		n.documented(t, commands)
	}
	must(t, lab.Eventually(t.Context(), "the token of the account", func(ctx context.Context) error {
		token, err := n.Run(ctx, kubectl, "get", "secret", "certificate-files-token", "--namespace="+accounts,
			"--output=jsonpath={.data.token}")
		if err == nil && token == "" {
			err = errors.New("it is empty")
		}
		return err
	}))
	for _, commands := range consoles(section(t, "3. The script and its account")) {
		n.documented(t, commands)
	}
	t.Run("account", func(t *testing.T) { account(t, n) })
	for _, d := range distributions() {
		t.Run(d.name, func(t *testing.T) { d.test(t, n) })
	}
	remove := func(secret string) {
		must1(n.Run(t.Context(), kubectl, "delete", "secret", secret, "--namespace="+accounts))(t)
	}
	last := distributions()[2]
	remove(accounts)
	t.Run("missing", func(t *testing.T) {
		unreadable(t, n, last, `Error from server (NotFound): secrets "api-certificate" not found`)
	})
	remove("certificate-files-token")
	t.Run("sandbox", func(t *testing.T) { sandbox(t, n) })
	t.Run("revoked", func(t *testing.T) {
		unreadable(t, n, last,
			"error: You must be logged in to the server (the server has asked for the client to provide credentials)")
	})
}

// account requires that the account can read one Secret, and nothing else.
func account(t *testing.T, n *node) {
	t.Helper()
	as := func(arguments ...string) (string, error) {
		return n.Run(t.Context(), kubectl, append(arguments, "--kubeconfig=/etc/http01-certificate/kubeconfig")...)
	}
	t.Log(must1(as("auth", "can-i", "--list", "--namespace="+accounts))(t))
	const user = "system:serviceaccount:api-certificate:certificate-files"
	for _, arguments := range [][]string{
		{"get", "secret", "certificate-files-token", "--namespace=" + accounts},
		{"get", "secrets", "--namespace=" + accounts},
		{"get", "secret", accounts, "--namespace=kube-system"},
		{"get", "configmaps", "--namespace=" + accounts},
		{"delete", "secret", accounts, "--namespace=" + accounts},
		{"create", "token", "certificate-files", "--namespace=" + accounts},
	} {
		_, err := as(arguments...)
		if err == nil || !strings.Contains(err.Error(), `Forbidden`) && !strings.Contains(err.Error(), "forbidden") ||
			!strings.Contains(err.Error(), user) {
			t.Errorf("kubectl %s: %v", strings.Join(arguments, " "), err)
			continue
		}
		t.Log(err)
	}
}

// test runs the document for one distribution.
func (d distribution) test(t *testing.T, n *node) {
	t.Helper()
	ctx := t.Context()
	root := must1(lab.NewAuthority("root"))(t)
	ca := must1(root.Intermediate("intermediate"))(t)
	issue := func(c lab.ServerCertificate) lab.Identity { return must1(ca.Issue(c))(t) }
	valid := lab.ServerCertificate{Names: []string{name}}
	first, second, third := issue(valid), issue(valid), issue(valid)

	must1(n.Run(ctx, "sh", "-ec", "rm -f /usr/bin/kubectl; install -D "+kubectl+" "+d.kubectl))(t)
	all := section(t, "4. The files")
	must1(n.Run(ctx, "mkdir", "--parents", path.Dir(d.target)))(t)
	n.documented(t, consoles(d.part(t, all))[0])
	must(t, n.WriteFile(units+unit+".service.d/target.conf", block(t, d.part(t, all), "ini certificate-files"), 0o644))
	n.set(t, first)
	line := n.documented(t, consoles(all)[3])
	if !strings.HasPrefix(line, "copied the Secret") {
		t.Fatalf("the journal has %q", line)
	}
	t.Log(line)
	arguments, mounts := d.server(t, block(t, section(t, "5. The API server"), "yaml "+d.mark))
	if mounts != nil {
		mounts = append(mounts, state)
	}
	must(t, n.startAPIServer(ctx, mounts, arguments...))
	serves(t, root, first)
	before := must1(n.Properties(ctx, "kube-apiserver", "MainPID", "NRestarts"))(t)
	t.Logf("%v", must1(n.Properties(ctx, unit+".timer", "NextElapseUSecRealtime", "Triggers", "ActiveState"))(t))

	n.set(t, second)
	n.elapse(t)
	serves(t, root, second)
	n.has(t, d, "current", second)
	n.has(t, d, "previous", first)
	t.Logf("\n%s", n.tree(t, d))

	d.refused(t, n, issue, second)
	serves(t, root, second)

	undo := strings.ReplaceAll(consoles(section(t, "Renewal and failures"))[0], distributions()[0].target, d.target)
	n.documented(t, undo)
	serves(t, root, first)
	n.has(t, d, "current", first)
	n.set(t, third)
	n.copied(t, d)
	serves(t, root, third)
	n.has(t, d, "previous", first)
	after := must1(n.Properties(ctx, "kube-apiserver", "MainPID", "NRestarts"))(t)
	if !maps.Equal(before, after) {
		t.Errorf("the API server was restarted: %v, then %v", before, after)
	}
}

// elapse has the timer start the unit a second later.
func (n *node) elapse(t *testing.T) {
	t.Helper()
	const dropin = units + unit + ".timer.d/soon.conf"
	must(t, n.WriteFile(dropin, "[Timer]\nOnCalendar=\nOnActiveSec=1s\nAccuracySec=100ms\nRandomizedDelaySec=0\n", 0o644))
	const restart = "systemctl daemon-reload; systemctl restart " + unit + ".timer"
	must1(n.Run(t.Context(), "sh", "-ec", "systemctl reset-failed; "+restart))(t)
	must(t, lab.Eventually(t.Context(), "the timer to start the unit", func(ctx context.Context) error {
		got, err := n.Properties(ctx, unit+".timer", "LastTriggerUSec", "ActiveState", "SubState")
		if err == nil && got["SubState"] != "elapsed" {
			err = fmt.Errorf("the timer: %v", got)
		}
		return err
	}))
	must(t, n.RemoveFile(dropin))
	must1(n.Run(t.Context(), "sh", "-ec", restart))(t)
}

// refused has wrong Secrets, which replace nothing and fail the unit.
func (d distribution) refused(t *testing.T, n *node, issue func(lab.ServerCertificate) lab.Identity, now lab.Identity) {
	t.Helper()
	valid := issue(lab.ServerCertificate{Names: []string{name}})
	before := n.tree(t, d)
	for _, test := range []struct {
		id     lab.Identity
		reason string
	}{
		{lab.Identity{Chain: valid.Chain, Key: now.Key}, "tls.key is another key"},
		{issue(lab.ServerCertificate{Names: []string{"x" + name}}), "the certificate does not contain the name " + name},
		{
			issue(lab.ServerCertificate{Names: []string{name}, NotAfter: time.Now().Add(-time.Minute)}),
			"certificate has expired",
		},
		{lab.Identity{Chain: valid.Chain[:300], Key: valid.Key}, "tls.crt contains no certificate"},
	} {
		n.set(t, test.id)
		line, err := n.start(t)
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Errorf("%s: the unit did not fail: %v", test.reason, err)
		}
		want := "cannot use the Secret api-certificate/api-certificate: " + test.reason +
			". Run kubectl describe certificate --namespace=api-certificate. Nothing was replaced in " + d.target + "."
		if line != want {
			t.Errorf("the journal has %q, want %q", line, want)
		}
		got := must1(n.Properties(t.Context(), unit, "ActiveState", "Result", "ExecMainStatus"))(t)
		if got["ActiveState"] != "failed" || got["Result"] != "exit-code" || got["ExecMainStatus"] != "1" {
			t.Errorf("%s: the unit is %v", test.reason, got)
		}
		t.Logf("%v: %s", got, line)
		if after := n.tree(t, d); after != before {
			t.Errorf("%s: the files changed from\n%s\nto\n%s", test.reason, before, after)
		}
	}
}
