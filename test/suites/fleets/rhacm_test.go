// SPDX-License-Identifier: Apache-2.0

package fleets

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"
)

// The name of the policy that reports clusters has a hash of the entries.
var inForceName = regexp.MustCompile(`^http01-proxyd-in-force-[0-9a-f]{8}$`)

// generatorFile is the part of a PolicyGenerator that the tests read. The schema rejects
// unknown fields.
type generatorFile struct {
	PolicyDefaults struct {
		Namespace           string
		Placement           placement
		PruneObjectBehavior string
	}
	Policies []struct {
		Name, RemediationAction, ComplianceType, MetadataComplianceType string

		Dependencies []struct{ Name string }
		Placement    placement
		Manifests    []struct{ Path string }
	}
}

type placement struct {
	Name          string
	LabelSelector struct {
		MatchLabels      map[string]string
		MatchExpressions []struct{ Key, Operator string }
	}
}

// checkSchema validates a document by a schema of this package.
func checkSchema(t *testing.T, schema string, document []byte) {
	t.Helper()
	compiled := must1(jsonschema.NewCompiler().Compile(filepath.Join("testdata", schema)))(t)
	text := must1(yaml.YAMLToJSONStrict(document))(t)
	value := must1(jsonschema.UnmarshalJSON(strings.NewReader(string(text))))(t)
	must(t, compiled.Validate(value))
}

// readGenerator reads the PolicyGenerator that a folder's kustomization names, and checks
// both.
func (f fleet) readGenerator(t *testing.T, folder string) generatorFile {
	t.Helper()
	var k types.Kustomization
	must(t, yaml.UnmarshalStrict(f.read(t, folder+"/kustomization.yaml"), &k))
	for _, name := range k.Resources {
		f.read(t, folder+"/"+name)
	}
	if len(k.Generators) != 1 {
		t.Fatalf("generators %q", k.Generators)
	}
	text := f.read(t, folder+"/"+k.Generators[0])
	checkSchema(t, "policygenerator.schema.json", text)
	var g generatorFile
	must(t, yaml.Unmarshal(text, &g))
	for _, p := range g.Policies {
		if name := g.PolicyDefaults.Namespace + "." + p.Name; len(name) > 63 {
			t.Errorf("%s has %d characters, at most 63 are allowed", name, len(name))
		}
		for _, m := range p.Manifests {
			if _, err := os.Stat(filepath.Join(f.dir, folder, m.Path)); err != nil {
				t.Error(err)
			}
		}
	}
	if g.PolicyDefaults.PruneObjectBehavior != "None" {
		t.Error("a policy that waits for another one would delete what it has applied")
	}
	return g
}

func buildRHACM(t *testing.T) fleet {
	t.Helper()
	f := newFleet(t)
	f.render(t, "--image", image, "--layout", "rhacm", "--output-dir", "fleet")
	f.render(t, "--layout", "rhacm", "--cluster", "paris1", "--config", "paris1.yaml", "--output-dir", "fleet")
	return f
}

// policyRow is one policy of the hub.
type policyRow struct {
	Action, Type, After, Object, Labels string
}

// TestRHACM holds the order of the policies, and which clusters get which configuration.
func TestRHACM(t *testing.T) {
	f := buildRHACM(t)
	f.checkNoRemoval(t, "fleet")
	// The second policy has a hash in its name.
	got, inForce := map[string]policyRow{}, f.readGenerator(t, "fleet").Policies[1].Name
	for _, folder := range []string{"fleet", "fleet/overlays/paris1"} {
		g := f.readGenerator(t, folder)
		for _, p := range g.Policies {
			p.Name = strings.Replace(p.Name, inForce, "in-force", 1)
			var after []string
			for _, d := range p.Dependencies {
				after = append(after, strings.Replace(d.Name, inForce, "in-force", 1))
			}
			place := p.Placement
			if place.Name == "" {
				place = g.PolicyDefaults.Placement
			}
			file := filepath.Join(folder, p.Manifests[0].Path)
			for key := range objects(t, f.read(t, file)) {
				got[p.Name] = policyRow{
					p.RemediationAction, p.ComplianceType + " " + p.MetadataComplianceType,
					strings.Join(after, " "), strings.Replace(key, inForce, "in-force", 1), place.String(),
				}
			}
		}
	}
	want := map[string]policyRow{
		"http01-proxyd-policy": {"enforce", " ", "", "MachineConfiguration/cluster", "http01-proxyd=enabled"},
		"in-force":             {"", " ", "", "ConfigurationPolicy/in-force", "http01-proxyd=enabled"},
		"http01-proxyd-units": {
			"enforce", "mustonlyhave musthave", "in-force",
			"MachineConfig/98-master-http01-proxyd", "http01-proxyd=enabled",
		},
		"http01-proxyd-config": {
			"enforce", "mustonlyhave musthave", "in-force",
			"MachineConfig/98-master-http01-proxyd-config", "http01-proxyd-config DoesNotExist http01-proxyd=enabled",
		},
		"http01-proxyd-config-paris1": {
			"enforce", "mustonlyhave musthave", "http01-proxyd-units",
			"MachineConfig/98-master-http01-proxyd-config", "http01-proxyd-config=paris1 http01-proxyd=enabled",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("policies (-want +got):\n%s", diff)
	}
	base := map[string]*unstructured.Unstructured{}
	for name := range f.tree(t, "fleet/manifests") {
		for key, u := range objects(t, f.read(t, "fleet/manifests/"+name)) {
			base[key] = u
		}
	}
	checkObjects(t, f.plain(t), base)
}

func (p placement) String() string {
	var all []string
	for key, value := range p.LabelSelector.MatchLabels {
		all = append(all, key+"="+value)
	}
	for _, e := range p.LabelSelector.MatchExpressions {
		all = append(all, e.Key+" "+e.Operator)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// TestNewEntriesWait holds that the MachineConfigs of a release with other entries wait
// for a policy that no cluster has yet: the state of an existing one could be outdated.
func TestNewEntriesWait(t *testing.T) {
	f := newFleet(t)
	names := map[string]bool{}
	for _, args := range [][]string{{"--image", image}, {"--layered"}} { // two sets of entries
		f.render(t, append(args, "--layout", "rhacm", "--output-dir", "fleet")...)
		g := f.readGenerator(t, "fleet")
		name := g.Policies[1].Name
		if !inForceName.MatchString(name) {
			t.Fatalf("the second policy is %s", name)
		}
		names[name] = true
	}
	if len(names) != 2 {
		t.Errorf("names %v: other entries need another name", names)
	}
}

// TestVanishedEntries holds that the ConfigurationPolicy compares the entries that the first
// policy applies. Every field is one of the API.
func TestVanishedEntries(t *testing.T) {
	f := buildRHACM(t)
	text := f.read(t, "fleet/manifests/in-force.yaml")
	checkSchema(t, "configurationpolicy.schema.json", text)
	var p struct {
		Spec struct {
			RemediationAction string
			Templates         []struct {
				ComplianceType   string
				ObjectDefinition map[string]any
			} `json:"object-templates"`
		}
	}
	must(t, yaml.Unmarshal(text, &p))
	if p.Spec.RemediationAction != "inform" || len(p.Spec.Templates) != 1 ||
		p.Spec.Templates[0].ComplianceType != "musthave" {
		t.Fatalf("it changes the cluster: %+v", p.Spec)
	}
	want := p.Spec.Templates[0].ObjectDefinition
	o := into[operatorv1.MachineConfiguration](t, &unstructured.Unstructured{Object: want})
	if entries := o.Status.NodeDisruptionPolicyStatus.ClusterPolicies; len(entries.Files) == 0 ||
		len(entries.Units) == 0 || o.Name != "cluster" {
		t.Fatalf("it compares no entries: %+v", o)
	}

	policy := into[operatorv1.MachineConfiguration](t,
		objects(t, f.read(t, "fleet/manifests/policy.yaml"))["MachineConfiguration/cluster"])
	applied, compared := toJSON(t, policy.Spec.NodeDisruptionPolicy),
		toJSON(t, o.Status.NodeDisruptionPolicyStatus.ClusterPolicies)
	if diff := cmp.Diff(string(applied), string(compared)); diff != "" {
		t.Errorf("entries (-applied +compared):\n%s", diff)
	}
}
