// SPDX-License-Identifier: Apache-2.0

package fleets

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/oc"
	"github.com/http01-proxyd/http01-proxyd/test/support/validator"
)

const (
	repository = "../../.."
	image      = "registry.example.com/http01-proxyd@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	// ownConfig is the configuration of one cluster.
	ownConfig = "mode: DefaultDeployment\nhosts: [api.paris1.example.com]\n"

	kindConfig = "MachineConfig"
	kindPolicy = "MachineConfiguration"
)

func TestMain(m *testing.M) {
	oc.Client() // when a script of a test called this program as a command
	os.Exit(m.Run())
}

// fleet is a folder of rendered files.
type fleet struct {
	dir     string
	program string
}

func newFleet(t *testing.T) fleet {
	t.Helper()
	f := fleet{dir: t.TempDir(), program: must1(lab.BuildCommand(t.Context(), "oc-http01"))(t)}
	must(t, os.WriteFile(filepath.Join(f.dir, "paris1.yaml"), []byte(ownConfig), 0o600))
	return f
}

// render runs `oc-http01 render` in the folder.
func (f fleet) render(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), f.program, append([]string{"render"}, args...)...)
	cmd.Dir = f.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

func (f fleet) read(t *testing.T, name string) []byte {
	t.Helper()
	return must1(os.ReadFile(filepath.Join(f.dir, filepath.FromSlash(name))))(t)
}

// build returns what `kustomize build` prints, in its order. Objects have the key
// Kind/name.
func (f fleet) build(t *testing.T, folder string) map[string]*unstructured.Unstructured {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(),
		filepath.Join(f.dir, folder))
	if err != nil {
		t.Fatalf("kustomize build %s: %v", folder, err)
	}
	return objects(t, must1(resources.AsYaml())(t))
}

// objects returns all objects of a YAML file.
func objects(t *testing.T, text []byte) map[string]*unstructured.Unstructured {
	t.Helper()
	all := map[string]*unstructured.Unstructured{}
	for _, d := range must1(validator.Documents(text))(t) {
		u := &unstructured.Unstructured{}
		must(t, yaml.UnmarshalStrict(d, &u.Object))
		all[u.GetKind()+"/"+u.GetName()] = u
	}
	return all
}

// plain returns the objects of the plain files, without the policy's removal.
func (f fleet) plain(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	f.render(t, "--image", image, "--output-dir", "plain")
	all := map[string]*unstructured.Unstructured{}
	must(t, filepath.WalkDir(filepath.Join(f.dir, "plain"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		for key, u := range objects(t, must1(os.ReadFile(path))(t)) {
			if u.GetKind() == kindConfig || !isRemoval(u) {
				all[key] = u
			}
		}
		return nil
	}))
	if len(all) != 3 {
		t.Fatalf("the plain files have %d objects, want two MachineConfigs and a policy", len(all))
	}
	return all
}

// isRemoval reports whether an object removes entries of the policy by server-side apply.
func isRemoval(u *unstructured.Unstructured) bool {
	entries, _, _ := unstructured.NestedMap(u.Object, "spec", "nodeDisruptionPolicy")
	return u.GetKind() == kindPolicy && len(entries) == 0
}

// checkNoRemoval holds that no file of a layout removes the policy, whatever an engine
// reads: its kustomization, or all files recursively.
func (f fleet) checkNoRemoval(t *testing.T, folder string) {
	t.Helper()
	seen := 0
	must(t, filepath.WalkDir(filepath.Join(f.dir, folder), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		for _, u := range objects(t, must1(os.ReadFile(path))(t)) {
			seen++
			if isRemoval(u) {
				t.Errorf("%s removes the policy", path)
			}
		}
		return nil
	}))
	if seen == 0 {
		t.Errorf("%s has no object", folder)
	}
}

// checkObjects compares the objects of the product, without annotations, and validates
// them as the API server does.
func checkObjects(t *testing.T, want, got map[string]*unstructured.Unstructured) {
	t.Helper()
	j := must1(validator.Load(t.Context()))(t)
	for key, w := range want {
		g := got[key]
		if g == nil {
			t.Errorf("%s is missing", key)
			continue
		}
		g = g.DeepCopy()
		document := must1(yaml.Marshal(g.Object))(t)
		if g.GetKind() == kindConfig {
			must(t, j.MachineConfig(document))
		} else {
			must(t, j.Object(document))
		}
		g.SetAnnotations(nil)
		if diff := cmp.Diff(w.Object, g.Object); diff != "" {
			t.Errorf("%s (-plain +layout):\n%s", key, diff)
		}
	}
}

func only(kind string, all map[string]*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	found := map[string]*unstructured.Unstructured{}
	for key, u := range all {
		if u.GetKind() == kind {
			found[key] = u
		}
	}
	return found
}

// TestKustomize builds all folders with kustomize. The base has the MachineConfigs of the
// plain files, and the policy is in a folder of its own.
func TestKustomize(t *testing.T) {
	f := newFleet(t)
	plain := f.plain(t)
	f.render(t, "--image", image, "--layout", "kustomize", "--output-dir", "fleet")
	f.render(t, "--layout", "kustomize", "--cluster", "paris1", "--config", "paris1.yaml", "--output-dir", "fleet")
	f.render(t, "--layout", "kustomize", "--cluster", "oslo1,oslo2", "--output-dir", "fleet")
	f.checkNoRemoval(t, "fleet")

	policy, base := f.build(t, "fleet/10-policy"), f.build(t, "fleet/base")
	checkObjects(t, only(kindPolicy, plain), policy)
	checkObjects(t, only(kindConfig, plain), base)
	if len(policy) != 1 || len(base) != 2 {
		t.Errorf("%d and %d objects: the policy must be active before the others are applied", len(policy), len(base))
	}
	for _, cluster := range []string{"oslo1", "oslo2"} {
		if diff := cmp.Diff(base, f.build(t, "fleet/overlays/"+cluster)); diff != "" {
			t.Errorf("%s (-base +overlay):\n%s", cluster, diff)
		}
	}
	checkOwnConfig(t, f, base, f.build(t, "fleet/overlays/paris1"))
}

// TestCertificate renders the certificate of one cluster in each layout. Engines apply it after the
// MachineConfigs, and none of them changes the APIServer.
func TestCertificate(t *testing.T) {
	f := newFleet(t)
	flags := []string{"--certificate", "--email", "ops@example.com", "--cluster-domain", "paris1.example.com"}
	certificate := []string{"CertManager/cluster", "ClusterIssuer/api-letsencrypt", "Certificate/api-certificate"}
	for _, layout := range []string{"kustomize", "argocd", "rhacm"} {
		f.render(t, "--image", image, "--layout", layout, "--output-dir", layout)
		f.render(t, append(flags, "--layout", layout, "--cluster", "paris1", "--output-dir", layout)...)
		f.read(t, layout+"/overlays/paris1/30-apiserver/switch.sh")
		own := f.build(t, layout+"/overlays/paris1/20-certificate")
		for _, key := range certificate {
			if own[key] == nil {
				t.Errorf("%s: no %s", layout, key)
			}
		}
		if len(own) != len(certificate) {
			t.Errorf("%s: %d objects", layout, len(own))
		}
	}

	overlay := f.build(t, "kustomize/overlays/paris1")
	if len(overlay) != 2 {
		t.Errorf("the overlay of kustomize has %d objects, want the MachineConfigs", len(overlay))
	}

	overlay = f.build(t, "argocd/overlays/paris1")
	for _, key := range certificate {
		if overlay[key] == nil || overlay[key].GetAnnotations()["argocd.argoproj.io/sync-wave"] != "1" {
			t.Errorf("argocd: %s is not in wave 1", key)
		}
	}
	if overlay["APIServer/cluster"] != nil {
		t.Error("argocd: changes the APIServer")
	}

	generator := f.readGenerator(t, "rhacm/overlays/paris1")
	if len(generator.Policies) != 2 || len(generator.Policies[1].Dependencies) != 1 ||
		generator.Policies[1].Dependencies[0].Name != generator.Policies[0].Name {
		t.Fatalf("policies: %+v, want the certificate after the configuration", generator.Policies)
	}
	for _, manifest := range generator.Policies[1].Manifests {
		f.read(t, "rhacm/overlays/paris1/"+manifest.Path)
	}
	if n := len(generator.Policies[1].Manifests); n != len(certificate) {
		t.Errorf("rhacm applies %d objects", n)
	}
}

// TestSignaturePolicy: each layout has the ClusterImagePolicy of the plain files, which the API server accepts.
func TestSignaturePolicy(t *testing.T) {
	f := newFleet(t)
	key := must1(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	der := must1(x509.MarshalPKIXPublicKey(key.Public()))(t)
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	must(t, os.WriteFile(filepath.Join(f.dir, "key.pub"), public, 0o600))
	flags := []string{"--image", image, "--signature-policy", "key.pub", "--output-dir"}
	f.render(t, append(flags, "plain")...)
	want := objects(t, f.read(t, "plain/97-image-policy.yaml"))
	for _, layout := range []string{"kustomize", "argocd"} {
		f.render(t, append(flags, layout, "--layout", layout)...)
		checkObjects(t, want, f.build(t, layout+"/base"))
	}
	f.render(t, append(flags, "rhacm", "--layout", "rhacm")...)
	checkObjects(t, want, objects(t, f.read(t, "rhacm/manifests/97-image-policy.yaml")))
	var policies []string
	for _, p := range f.readGenerator(t, "rhacm").Policies {
		for _, m := range p.Manifests {
			policies = append(policies, p.Name+" "+m.Path)
		}
	}
	if !slices.Contains(policies, "http01-proxyd-image-policy manifests/97-image-policy.yaml") {
		t.Errorf("no policy has the manifest: %q", policies)
	}
}

// checkOwnConfig holds that an overlay differs from the base in the configuration only, as
// a rendering for this cluster alone does.
func checkOwnConfig(t *testing.T, f fleet, base, overlay map[string]*unstructured.Unstructured) {
	t.Helper()
	f.render(t, "--image", image, "--config", "paris1.yaml", "--output-dir", "alone")
	want := map[string]*unstructured.Unstructured{}
	for key, u := range base {
		want[key] = u
	}
	for _, path := range must1(filepath.Glob(filepath.Join(f.dir, "alone", "*-config.yaml")))(t) {
		for key, u := range objects(t, must1(os.ReadFile(path))(t)) {
			want[key] = u
		}
	}
	if cmp.Equal(base, want) {
		t.Fatal("the cluster's configuration is that of the base")
	}
	if diff := cmp.Diff(want, overlay); diff != "" {
		t.Errorf("overlay (-want +got):\n%s", diff)
	}
}

// TestUpgradeChangesBaseOnly holds that a new image changes one file for all clusters.
func TestUpgradeChangesBaseOnly(t *testing.T) {
	f := newFleet(t)
	for _, layout := range []string{"kustomize", "argocd", "rhacm"} {
		f.render(t, "--image", image, "--layout", layout, "--output-dir", layout)
		f.render(t, "--layout", layout, "--cluster", "paris1", "--config", "paris1.yaml", "--output-dir", layout)
		before := f.tree(t, layout)
		f.render(t, "--image", strings.ReplaceAll(image, "0123", "4567"), "--layout", layout, "--output-dir", layout)
		var changed []string
		for name, text := range f.tree(t, layout) {
			if before[name] != text {
				changed = append(changed, name)
			}
		}
		if len(changed) != 1 || strings.HasPrefix(changed[0], "overlays/") {
			t.Errorf("%s: a new image changes %q, want the MachineConfig with the image", layout, changed)
		}
	}
}

// tree returns all files below a folder.
func (f fleet) tree(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	root := filepath.Join(f.dir, folder)
	must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		name, err := filepath.Rel(root, path)
		all[filepath.ToSlash(name)] = string(must1(os.ReadFile(path))(t))
		return err
	}))
	return all
}

// TestRejected: nothing is written when a layout has no meaning.
func TestRejected(t *testing.T) {
	f := newFleet(t)
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"unknown layout": {
			[]string{"--image", image, "--layout", "flux"},
			`--layout "flux": use kustomize, argocd, rhacm`,
		},
		"a cluster without layout": {[]string{"--cluster", "a"}, "--cluster requires --layout"},
		"an image and a cluster": {
			[]string{"--layout", "kustomize", "--cluster", "a", "--image", image},
			"--image cannot be used with --cluster",
		},
		"a path as cluster": {
			[]string{"--layout", "kustomize", "--cluster", "../a"},
			`cluster "../a": not a valid name of an overlay: give at most 63 lower-case letters`,
		},
		"a long cluster": {[]string{
			"--layout", "rhacm", "--cluster", strings.Repeat("a", 29), "--config",
			"paris1.yaml",
		}, "give at most 28 lower-case letters"},
		"no configuration in rhacm": {
			[]string{"--layout", "rhacm", "--cluster", "a"},
			"--cluster with --layout rhacm requires a configuration",
		},
		"the hook's image": {
			[]string{"--image", image, "--layout", "rhacm", "--cli-image", "a"},
			"--cli-image requires --layout argocd",
		},
		"Ignition": {[]string{"--fcos", "--binary", "b", "--layout", "argocd"}, "--layout cannot be used with --fcos"},
		"a stream": {[]string{"--image", image, "--layout", "argocd", "--output-dir", "-"}, "--layout requires a folder"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"render", "--output-dir", "out"}, tt.args...)
			cmd := exec.CommandContext(t.Context(), f.program, args...)
			cmd.Dir = f.dir
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			err := cmd.Run()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !strings.Contains(stderr.String(), tt.want) {
				t.Errorf("%v\n%s\nwant %q", err, stderr.String(), tt.want)
			}
			if _, err := os.Stat(filepath.Join(f.dir, "out")); err == nil {
				t.Error("render wrote files")
			}
		})
	}
}

// toJSON returns an object in the form that the API server stores.
func toJSON(t *testing.T, o any) []byte {
	t.Helper()
	return must1(json.Marshal(o))(t)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must1 returns the value of a call and ends the test on its error.
func must1[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return value
	}
}

// into decodes an object strictly into its type.
func into[T any](t *testing.T, u *unstructured.Unstructured) T {
	t.Helper()
	var o T
	if u == nil {
		t.Fatalf("no %T", o)
	}
	d := json.NewDecoder(bytes.NewReader(toJSON(t, u.Object)))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", u.GetKind(), err))
	}
	return o
}
