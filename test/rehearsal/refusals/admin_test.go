// SPDX-License-Identifier: Apache-2.0

package refusals_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/openshift"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// image is the image in the MachineConfigs. No host pulls it.
const image = "quay.io/me/http01-proxyd@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// admin is the administrator of a pool, who reaches the API server through a proxy.
type admin struct {
	*site
	*proxy

	t    *testing.T
	pool string
	dir  string // with the rendered files
	bin  string // with oc
}

// newAdmin creates a pool and renders its MachineConfigs.
func newAdmin(t *testing.T, s *site, pool string) *admin {
	t.Helper()
	a := &admin{site: s, proxy: newProxy(t, s.api), t: t, pool: pool, dir: t.TempDir(), bin: t.TempDir()}
	must(t, s.createPool(t.Context(), pool))
	for name, text := range map[string]string{
		"oc": `#!/bin/sh
if [ "$1" = http01 ]; then
	shift
	exec ` + s.renderer + ` "$@"
fi
exec nsenter --net=/run/netns/` + s.api.Lab.Gateway.Namespace + " " + s.programs.Kubectl + ` "$@"
`,
		// The script waits for hosts, and there are none.
		"sleep": "#!/bin/sh\nexec /bin/sleep 1\n",
	} {
		must(t, os.WriteFile(filepath.Join(a.bin, name), []byte(text), 0o755))
	}
	a.configure(8888)
	return a
}

// configure renders the MachineConfigs with a port of the proxy.
func (a *admin) configure(port int) {
	a.t.Helper()
	a.write("my.yaml", fmt.Sprintf("mode: CustomDeployment\ncustomDeployment: {internalPort: %d}\n", port))
	a.must(fmt.Sprintf("oc http01 render --image %s --pool %s --config my.yaml --output-dir rendered", image, a.pool))
}

func (a *admin) write(name, text string) {
	a.t.Helper()
	must(a.t, os.WriteFile(filepath.Join(a.dir, name), []byte(text), 0o600))
}

// run runs commands as the administrator with a token, and returns their output.
func (a *admin) run(token, commands string) (string, error) {
	a.t.Helper()
	kubeconfig := filepath.Join(a.bin, "kubeconfig")
	must(a.t, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"lab": {Server: a.URL, CertificateAuthorityData: a.Authority}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"user": {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{"user": {Cluster: "lab", AuthInfo: "user"}},
		CurrentContext: "user",
	}, kubeconfig))
	environment := append(os.Environ(), "PATH="+a.bin+":"+os.Getenv("PATH"), "KUBECONFIG="+kubeconfig, "HOME="+a.bin)
	out, err := lab.Shell(run, a.dir, environment, "set -uo pipefail\n"+commands).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		a.t.Fatal(err)
	}
	a.t.Logf("%s\n%s", commands, out)
	return string(out), err
}

// must runs commands that succeed, as an administrator with all rights.
func (a *admin) must(commands string) string {
	a.t.Helper()
	return must1(a.run(a.token, commands))(a.t)
}

// rollout is the documented command.
const rollout = "sh rendered/10-policy/apply.sh rollout"

// release is the documented last command of the removal.
const release = "sh rendered/10-policy/apply.sh release"

// refused runs a command that fails with these texts, and does not change an object that matches a pattern.
func (a *admin) refused(token, command, unchanged string, want ...string) {
	a.t.Helper()
	a.takeWrites()
	out, err := a.run(token, command)
	if err == nil {
		a.t.Fatalf("%s: no error", command)
	}
	for _, text := range want {
		if !strings.Contains(out, text) {
			a.t.Errorf("no %q in the output of %s", text, command)
		}
	}
	for _, line := range a.takeWrites() {
		if regexp.MustCompile(unchanged).MatchString(line) {
			a.t.Errorf("%s wrote: %s", command, line)
		}
	}
}

// examine runs the documented commands of preflight for the pool, as a user with a token.
func (a *admin) examine(token string) (string, error) {
	a.t.Helper()
	return a.run(token, strings.ReplaceAll(`
oc get machineconfiguration/cluster mcp/POOL clusterversion/version apiserver/cluster -o yaml > cluster.yaml
oc get machineosconfig -o yaml > machineosconfigs.yaml
oc get mc --selector='machineconfiguration.openshift.io/role in (worker, POOL)' -o yaml > machineconfigs.yaml
oc http01 preflight --pool POOL cluster.yaml machineosconfigs.yaml machineconfigs.yaml rendered`, "POOL", a.pool))
}

// preflight returns the findings of preflight.
func (a *admin) preflight() []string {
	a.t.Helper()
	out, err := a.examine(a.token)
	found := openshift.Findings(out)
	if len(found) == 0 && (err != nil || !strings.Contains(out, "reboots no node of the pool "+a.pool)) {
		a.t.Fatalf("preflight: %v", err)
	}
	return found
}

// completed expects that the cluster has all of the rendered files.
func (a *admin) completed() {
	a.t.Helper()
	ctx := a.t.Context()
	if found := a.preflight(); len(found) > 0 {
		a.t.Errorf("preflight reports %q", found)
	}
	pool := must1(a.client.Resource(openshift.Resource("machineconfigpools")).Get(ctx, a.pool, metav1.GetOptions{}))(a.t)
	name, _, _ := unstructured.NestedString(pool.Object, "status", "configuration", "name")
	rendered := a.sources(name)
	for _, own := range []string{"98-" + a.pool + "-http01-proxyd", "98-" + a.pool + "-http01-proxyd-config"} {
		sources := a.sources(own)
		if len(sources) == 0 {
			a.t.Errorf("%s has no file", own)
		}
		for _, source := range sources {
			if !slices.Contains(rendered, source) {
				a.t.Errorf("the configuration %s lacks a file of %s", name, own)
			}
		}
	}
}

// sources returns the contents of the files in a MachineConfig.
func (a *admin) sources(name string) (all []string) {
	a.t.Helper()
	o := must1(a.client.Resource(openshift.Resource("machineconfigs")).Get(a.t.Context(), name, metav1.GetOptions{}))(a.t)
	files, _, _ := unstructured.NestedSlice(o.Object, "spec", "config", "storage", "files")
	for _, f := range files {
		file, _ := f.(map[string]any)
		source, _, _ := unstructured.NestedString(file, "contents", "source")
		all = append(all, source)
	}
	return all
}

// removed expects that the cluster has none of our entries.
func (a *admin) removed() {
	a.t.Helper()
	out := a.must("oc get machineconfiguration cluster -o jsonpath='{.spec.nodeDisruptionPolicy}'")
	if strings.Contains(out, "http01-proxyd") {
		a.t.Errorf("the policy has entries: %s", out)
	}
}

// createPool creates a pool without nodes, and waits for its configuration.
func (s *site) createPool(ctx context.Context, name string) error {
	pools := s.client.Resource(openshift.Resource("machineconfigpools"))
	if _, err := pools.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
		"metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"machineConfigSelector": map[string]any{"matchExpressions": []any{map[string]any{
				"key": "machineconfiguration.openshift.io/role", "operator": "In", "values": []any{"worker", name},
			}}},
			"nodeSelector": map[string]any{"matchLabels": map[string]any{"node-role.kubernetes.io/" + name: ""}},
		},
	}}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the pool %s: %w", name, err)
	}
	return lab.Within(ctx, 3*time.Minute, "the configuration of the pool "+name, func(ctx context.Context) error {
		p, err := pools.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if rendered, _, _ := unstructured.NestedString(p.Object, "status", "configuration", "name"); rendered == "" {
			return fmt.Errorf("the status is %v", p.Object["status"])
		}
		return nil
	})
}

// createUser creates a user with these rights on the API groups, and returns its token.
func (s *site) createUser(t *testing.T, name string, rules ...rbacv1.PolicyRule) string {
	t.Helper()
	ctx, object := t.Context(), metav1.ObjectMeta{Name: name}
	accounts := s.api.Kube.CoreV1().ServiceAccounts(metav1.NamespaceDefault)
	must1(accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: object}, metav1.CreateOptions{}))(t)
	must1(s.api.Kube.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: object, Rules: rules},
		metav1.CreateOptions{}))(t)
	must1(s.api.Kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: object, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: metav1.NamespaceDefault}},
	}, metav1.CreateOptions{}))(t)
	response := must1(accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))(t)
	return response.Status.Token
}

// may returns a rule for resources of a group. Without verbs, it permits all of them.
func may(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
	if len(verbs) == 0 {
		verbs = []string{rbacv1.VerbAll}
	}
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}
