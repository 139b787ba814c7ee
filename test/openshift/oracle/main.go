// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	configv1alpha1 "github.com/openshift/api/config/v1alpha1"
	"github.com/openshift/api/features"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/configobserver/featuregates"
	"github.com/openshift/machine-config-operator/pkg/apihelpers"
	"github.com/openshift/machine-config-operator/pkg/controller/common"
	containerruntimeconfig "github.com/openshift/machine-config-operator/pkg/controller/container-runtime-config"
	"github.com/openshift/machine-config-operator/pkg/controller/render"
	"github.com/openshift/machine-config-operator/pkg/controller/template"
	"github.com/openshift/machine-config-operator/pkg/daemon/constants"
	"github.com/openshift/machine-config-operator/pkg/version"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"
)

// pool is the pool of the control-plane nodes.
const (
	pool      = "master"
	roleLabel = "machineconfiguration.openshift.io/role"
)

// request has the objects of a cluster. What is empty is not examined.
type request struct {
	Templates      string                   // folder of the operator's templates
	Infrastructure *configv1.Infrastructure // with Templates: adds the MachineConfigs of its platform
	IPFamilies     mcfgv1.IPFamiliesType    // of the cluster
	MachineConfigs []string                 // YAML, of any pool; with Infrastructure also ClusterImagePolicies
	Policy         string                   // MachineConfiguration, as YAML
	Paths          []string                 // changed files, with Policy
}

// response has the results of the operator.
type response struct {
	Platform []*mcfgv1.MachineConfig                                  `json:",omitempty"` // of all pools
	Rendered *mcfgv1.MachineConfig                                    `json:",omitempty"`
	Policies *operatorv1.NodeDisruptionPolicyClusterStatus            `json:",omitempty"`
	Actions  map[string][]operatorv1.NodeDisruptionPolicyStatusAction `json:",omitempty"`
	Contents map[string]content                                       `json:",omitempty"`
}

// content is the content of a file as the daemon decodes it, or the error.
type content struct{ Text, Error string }

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	// The standard error contains the error alone.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	var r request
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	answer, err := r.answer()
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(answer)
}

func (r request) answer() (a response, err error) {
	if r.Policy != "" {
		var object operatorv1.MachineConfiguration
		if err := yaml.Unmarshal([]byte(r.Policy), &object); err != nil {
			return a, fmt.Errorf("read the policy: %w", err)
		}
		merged := apihelpers.MergeClusterPolicies(object.Spec.NodeDisruptionPolicy)
		a.Policies, a.Actions = &merged, map[string][]operatorv1.NodeDisruptionPolicyStatusAction{}
		for _, path := range r.Paths {
			if found, actions := common.FindClosestFilePolicyPathMatch(path, merged.Files); found {
				a.Actions[path] = actions
			}
		}
	}
	controller := controllerConfig(r.Infrastructure, r.IPFamilies)
	if r.Infrastructure != nil {
		a.Platform, err = template.RunBootstrap(r.Templates, controller, []byte(`{"auths":{}}`), &configv1.APIServer{})
		if err != nil {
			return a, fmt.Errorf("render the templates: %w", err)
		}
	}
	configs := append([]*mcfgv1.MachineConfig{}, a.Platform...)
	var policies []*configv1alpha1.ClusterImagePolicy
	for _, text := range r.MachineConfigs {
		var p configv1alpha1.ClusterImagePolicy
		if err := yaml.Unmarshal([]byte(text), &p); err == nil && p.Kind == "ClusterImagePolicy" {
			policies = append(policies, &p)
			continue
		}
		var c mcfgv1.MachineConfig
		if err := yaml.Unmarshal([]byte(text), &c); err != nil {
			return a, fmt.Errorf("read a MachineConfig: %w", err)
		}
		configs = append(configs, &c)
	}
	if len(policies) > 0 {
		generated, err := registries(r.Templates, controller, policies)
		if err != nil {
			return a, fmt.Errorf("render the policies of images: %w", err)
		}
		configs = append(configs, generated...)
	}
	if len(configs) == 0 {
		return a, nil
	}
	_, rendered, err := render.RunBootstrap([]*mcfgv1.MachineConfigPool{masters()}, configs, controller)
	if err != nil {
		return a, fmt.Errorf("render the pool's configuration: %w", err)
	}
	a.Rendered = rendered[0]
	a.Contents, err = decode(a.Rendered)
	return a, err
}

// sigstoreOnly enables one feature. The operator of 4.19 requires FeatureGateAccess, and the one of 4.20 the other
// methods.
type sigstoreOnly struct{ featuregates.FeatureGateAccess }

var sigstore = features.FeatureGateSigstoreImageVerification

func (sigstoreOnly) Connect(context.Context) error              { return nil }
func (sigstoreOnly) Enabled(name configv1.FeatureGateName) bool { return name == sigstore }
func (sigstoreOnly) Exists(name configv1.FeatureGateName) bool  { return name == sigstore }
func (sigstoreOnly) KnownFeatures() []configv1.FeatureGateName {
	return []configv1.FeatureGateName{sigstore}
}

// registries returns the MachineConfigs that the controller generates for policies of images. Its version knows
// them as v1alpha1, with the same fields.
func registries(templates string, controller *mcfgv1.ControllerConfig, policies []*configv1alpha1.ClusterImagePolicy,
) ([]*mcfgv1.MachineConfig, error) {
	enabled := sigstoreOnly{featuregates.NewHardcodedFeatureGateAccess([]configv1.FeatureGateName{sigstore}, nil)}
	return containerruntimeconfig.RunImageBootstrap(templates, controller, []*mcfgv1.MachineConfigPool{masters()},
		nil, nil, nil, nil, policies, nil, enabled)
}

// decode returns the contents of the files in a configuration.
func decode(config *mcfgv1.MachineConfig) (map[string]content, error) {
	parsed, err := common.ParseAndConvertConfig(config.Spec.Config.Raw)
	if err != nil {
		return nil, fmt.Errorf("read the rendered configuration: %w", err)
	}
	contents := map[string]content{}
	for _, f := range parsed.Storage.Files {
		text, err := common.DecodeIgnitionFileContents(f.Contents.Source, f.Contents.Compression)
		if err != nil {
			contents[f.Path] = content{Error: err.Error()}
			continue
		}
		contents[f.Path] = content{Text: string(text)}
	}
	return contents, nil
}

// masters returns the pool of the control-plane nodes.
func masters() *mcfgv1.MachineConfigPool {
	return &mcfgv1.MachineConfigPool{
		TypeMeta:   metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfigPool"},
		ObjectMeta: metav1.ObjectMeta{Name: pool},
		Spec: mcfgv1.MachineConfigPoolSpec{
			MachineConfigSelector: &metav1.LabelSelector{MatchLabels: map[string]string{roleLabel: pool}},
		},
	}
}

// controllerConfig returns what the operator writes for a cluster (its pkg/operator/sync.go,
// syncRenderConfig). Keys and images are fake: the templates copy them.
func controllerConfig(infrastructure *configv1.Infrastructure,
	families mcfgv1.IPFamiliesType,
) *mcfgv1.ControllerConfig {
	images := map[string]string{}
	for _, key := range []string{
		"baremetalRuntimeCfgImage", "corednsImage", "haproxyImage", "infraImageKey", "keepalivedImage",
	} {
		images[key] = "registry.example.com/" + strings.ToLower(key) + "@sha256:" + strings.Repeat("0", 64)
	}
	return &mcfgv1.ControllerConfig{
		TypeMeta: metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "ControllerConfig"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        "machine-config-controller",
			Annotations: map[string]string{constants.GeneratedByVersionAnnotationKey: version.Raw},
		},
		Spec: mcfgv1.ControllerConfigSpec{
			ClusterDNSIP: "172.30.0.10", NetworkType: "OVNKubernetes", IPFamilies: families, Infra: infrastructure,
			DNS:                        &configv1.DNS{Spec: configv1.DNSSpec{BaseDomain: "example.com"}},
			Images:                     images,
			RootCAData:                 []byte("CA"),
			KubeAPIServerServingCAData: []byte("CA"),
			ReleaseImage:               "registry.example.com/release@sha256:" + strings.Repeat("0", 64),
			BaseOSContainerImage:       "registry.example.com/os@sha256:" + strings.Repeat("0", 64),
		},
	}
}
