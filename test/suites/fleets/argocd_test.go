// SPDX-License-Identifier: Apache-2.0

package fleets

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/test/support/oc"
)

const syncName = "http01-proxyd-sync"

// step is an object's place in a sync (gitops-engine, pkg/sync/common/types.go).
type step struct {
	Wave, Hook, Options string
}

func steps(all map[string]*unstructured.Unstructured) map[string]step {
	found := map[string]step{}
	for key, u := range all {
		a := u.GetAnnotations()
		found[key] = step{
			a["argocd.argoproj.io/sync-wave"], a["argocd.argoproj.io/hook"],
			a["argocd.argoproj.io/sync-options"],
		}
	}
	return found
}

// buildArgoCD renders the base and one overlay.
func buildArgoCD(t *testing.T) (f fleet, base map[string]*unstructured.Unstructured) {
	t.Helper()
	f = newFleet(t)
	f.render(t, "--image", image, "--layout", "argocd", "--output-dir", "fleet")
	f.render(t, "--layout", "argocd", "--cluster", "paris1", "--config", "paris1.yaml", "--output-dir", "fleet")
	return f, f.build(t, "fleet/base")
}

// TestArgoCD holds that the policy comes first, the hook second and the MachineConfigs
// last, in the base and in overlays, and that Argo CD never deletes the policy.
func TestArgoCD(t *testing.T) {
	f, base := buildArgoCD(t)
	f.checkNoRemoval(t, "fleet")
	checkObjects(t, f.plain(t), base)
	first := step{Wave: "-2"}
	want := map[string]step{
		"Namespace/" + syncName:          first,
		"ServiceAccount/" + syncName:     first,
		"ClusterRole/" + syncName:        first,
		"ClusterRoleBinding/" + syncName: first,
		"MachineConfiguration/cluster": {
			Wave:    "-2",
			Options: "ServerSideApply=true,Prune=false,Delete=false",
		},
		"Job/" + syncName:                              {Wave: "-1", Hook: "Sync"},
		"MachineConfig/98-master-http01-proxyd":        {}, // wave 0
		"MachineConfig/98-master-http01-proxyd-config": {},
	}
	if diff := cmp.Diff(want, steps(base)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	overlay := f.build(t, "fleet/overlays/paris1")
	if diff := cmp.Diff(want, steps(overlay)); diff != "" {
		t.Errorf("steps of the overlay (-want +got):\n%s", diff)
	}
	checkOwnConfig(t, f, base, overlay)
}

// TestHookObjects decodes the hook strictly. It may read one object and needs no
// privileges.
func TestHookObjects(t *testing.T) {
	_, base := buildArgoCD(t)
	into[corev1.Namespace](t, base["Namespace/"+syncName])
	account := into[corev1.ServiceAccount](t, base["ServiceAccount/"+syncName])
	role := into[rbacv1.ClusterRole](t, base["ClusterRole/"+syncName])
	binding := into[rbacv1.ClusterRoleBinding](t, base["ClusterRoleBinding/"+syncName])
	job := into[batchv1.Job](t, base["Job/"+syncName])
	pod := job.Spec.Template.Spec

	want := []rbacv1.PolicyRule{{
		APIGroups: []string{"operator.openshift.io"},
		Resources: []string{"machineconfigurations"}, ResourceNames: []string{"cluster"}, Verbs: []string{"get"},
	}}
	if diff := cmp.Diff(want, role.Rules); diff != "" {
		t.Errorf("permissions (-want +got):\n%s", diff)
	}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: account.Name, Namespace: account.Namespace}}
	if diff := cmp.Diff(subjects, binding.Subjects); diff != "" || binding.RoleRef.Name != role.Name {
		t.Errorf("binding of %s (-want +got):\n%s", binding.RoleRef.Name, diff)
	}
	if job.Namespace != account.Namespace || pod.ServiceAccountName != account.Name ||
		pod.RestartPolicy != corev1.RestartPolicyNever || job.Spec.ActiveDeadlineSeconds == nil {
		t.Errorf("job in %s: %+v", job.Namespace, job.Spec)
	}
	if job.Annotations["argocd.argoproj.io/hook-delete-policy"] != "BeforeHookCreation" {
		t.Error("the job of an earlier sync would remain, and the hook would not run again")
	}
	c := pod.Containers[0].SecurityContext
	if !*pod.SecurityContext.RunAsNonRoot || *c.AllowPrivilegeEscalation || c.Capabilities.Drop[0] != "ALL" ||
		pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the pod is not admitted by the profile restricted: %+v %+v", pod.SecurityContext, c)
	}
}

// others is a policy with the entry of another program.
const others = `apiVersion: operator.openshift.io/v1
kind: MachineConfiguration
metadata: {name: cluster}
spec:
  nodeDisruptionPolicy:
    files: [{path: /etc/z, actions: [{type: Reload, reload: {serviceName: z.service}}]}]
`

// TestHook runs the script of the hook. The cluster's operator observes the policy some
// time after it is applied. Argo CD applies it with its own field manager.
func TestHook(t *testing.T) {
	f, base := buildArgoCD(t)
	policy := string(must1(yaml.Marshal(base["MachineConfiguration/cluster"].Object))(t))
	for name, tt := range map[string]struct {
		applied string // after the others' policy
		inForce bool
		missing string // in the output
	}{
		"active":      {policy, true, ""},
		"not applied": {"", false, "/etc/http01-proxyd None="},
		"an entry vanished": {
			strings.Replace(policy, "name: http01-proxyd-table.service", "name: z.service", 1), false,
			"Missing entries:\nhttp01-proxyd-table.service DaemonReload=",
		},
		"another action": {
			strings.Replace(policy, "serviceName: http01-proxyd-install.service", "serviceName: z.service", 1),
			false, "Restart=http01-proxyd-install.service",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := must1(oc.New(t.Context(), []byte(others), nil))(t)
			if tt.applied != "" {
				must(t, os.WriteFile(f.dir+"/applied.yaml", []byte(tt.applied), 0o600))
				must1(cluster.Run(t.Context(), f.dir, "apply", "--server-side", "--field-manager=argocd-controller", "-f",
					"applied.yaml"))(t)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out, err := runHook(ctx, t, base, cluster, cancel)
			if (err == nil) != tt.inForce || !strings.Contains(out, tt.missing) {
				t.Errorf("%v\n%s\nwant %q", err, out, tt.missing)
			}
		})
	}
}

// TestRelease runs the command of the document that removes the entries which Argo CD applied.
func TestRelease(t *testing.T) {
	f, base := buildArgoCD(t)
	cluster := must1(oc.New(t.Context(), []byte(others), nil))(t)
	policy := must1(yaml.Marshal(base["MachineConfiguration/cluster"].Object))(t)
	must(t, os.WriteFile(f.dir+"/applied.yaml", policy, 0o600))
	must1(cluster.Run(t.Context(), f.dir, "apply", "--server-side", "--field-manager=argocd-controller", "-f",
		"applied.yaml"))(t)
	has := func(path string, want bool) {
		t.Helper()
		found := must1(cluster.Run(t.Context(), f.dir, "get", "machineconfiguration", "cluster", "-o", "yaml"))(t)
		if strings.Contains(found, path) != want {
			t.Errorf("%s: present is not %t:\n%s", path, want, found)
		}
	}
	has("/etc/http01-proxyd", true)

	text := must1(os.ReadFile(filepath.Join(repository, filepath.FromSlash(document))))(t)
	_, block, found := strings.Cut(string(text), "\n```sh\ncat > no-entries.yaml")
	if !found {
		t.Fatal("the document has no command")
	}
	block, _, _ = strings.Cut(block, "\n```")
	commands := must1(oc.NewCommands(t.TempDir(), map[string]oc.Handler{"oc": cluster.Run}))(t)
	defer func() { must(t, commands.Close()) }()
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", "cat > no-entries.yaml"+block)
	cmd.Dir, cmd.Env = f.dir, commands.Environment()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	has("/etc/http01-proxyd", false)
	has("/etc/z", true)
}

// runHook runs the hook's script with the simulated oc. The Job's deadline ends it at the
// third pause.
func runHook(ctx context.Context, t *testing.T, base map[string]*unstructured.Unstructured, cluster *oc.Cluster,
	deadline func(),
) (string, error) {
	t.Helper()
	pauses, bin := 0, t.TempDir()
	commands := must1(oc.NewCommands(bin, map[string]oc.Handler{
		"oc": cluster.Run,
		"sleep": func(context.Context, string, ...string) (string, error) {
			if pauses++; pauses == 3 {
				deadline()
			}
			return "", nil
		},
	}))(t)
	defer func() { must(t, commands.Close()) }()
	c := into[batchv1.Job](t, base["Job/"+syncName]).Spec.Template.Spec.Containers[0]
	cmd := exec.CommandContext(ctx, c.Command[0], c.Command[1:]...)
	cmd.Env = commands.Environment()
	for _, v := range c.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("the hook: %w", err)
	}
	return string(out), err
}
