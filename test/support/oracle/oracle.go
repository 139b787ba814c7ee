// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// Release is a release of OpenShift whose operator can answer.
type Release string

// The releases. The versions are snapshots of their development, in test/openshift: the Go
// module proxy serves no other ones.
const (
	OpenShift419 Release = "4.19"
	OpenShift420 Release = "4.20"

	Newest = OpenShift420
)

// Releases returns all releases.
func Releases() []Release { return []Release{OpenShift419, OpenShift420} }

// Tags are the build tags of OpenShift's Makefile that need no C compiler.
const Tags = "containers_image_openpgp exclude_graphdriver_devicemapper exclude_graphdriver_btrfs " +
	"containers_image_ostree_stub"

// Module is the folder of the operator's Go module below test/.
const Module = "openshift"

// Modfile returns the file of the module that selects the release's version of the operator.
func (r Release) Modfile() string {
	if r == Newest {
		return "go.mod"
	}
	return string(r) + ".mod"
}

// Source returns the folder with the files of a module that the operator requires.
func (r Release) Source(ctx context.Context, module string) (string, error) {
	in, err := lab.ModuleFolder(Module)
	if err != nil {
		return "", err
	}
	out, err := lab.Output(ctx, nil, "", "go", "-C", in, "list", "-modfile="+r.Modfile(), "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return "", fmt.Errorf("find the files of %s: %w", module, err)
	}
	return strings.TrimSpace(out), nil
}

// Templates returns the folder with the operator's templates.
func (r Release) Templates(ctx context.Context) (string, error) {
	source, err := r.Source(ctx, "github.com/openshift/machine-config-operator")
	return filepath.Join(source, "templates"), err
}

// Build compiles the program of each release, for tests that have no network later.
func Build(ctx context.Context) error {
	var errs []error
	for _, r := range Releases() {
		_, err := Load(ctx, r)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Operator is the machine-config-operator of a release.
type Operator struct{ program, templates string }

// Load returns the operator of a release, and compiles its program when necessary.
func Load(ctx context.Context, r Release) (*Operator, error) {
	dir, err := lab.BuildModule(ctx, Module, "-modfile="+r.Modfile(), "-ldflags=-s -w", "-tags="+Tags)
	if err != nil {
		return nil, err
	}
	templates, err := r.Templates(ctx)
	return &Operator{program: filepath.Join(dir, "oracle"), templates: templates}, err
}

// Request has the objects of a cluster. What is empty is not examined.
type Request struct {
	Infrastructure *configv1.Infrastructure `json:",omitempty"` // adds the MachineConfigs of its platform
	IPFamilies     mcfgv1.IPFamiliesType    // of the cluster
	MachineConfigs []string                 // YAML, in any order; and, with Infrastructure, ClusterImagePolicies
	Policy         string                   // MachineConfiguration, as YAML
	Paths          []string                 // changed files
}

// Response has the results of the operator.
type Response struct {
	Platform []mcfgv1.MachineConfig // MachineConfigs of the platform, of all pools
	Rendered *mcfgv1.MachineConfig  // configuration of the pool master
	Policies *operatorv1.NodeDisruptionPolicyClusterStatus
	// Actions are what the daemon does after a change of the files. A file without an entry has none.
	Actions map[string][]operatorv1.NodeDisruptionPolicyStatusAction
	// Contents are the contents of the files in the rendered configuration.
	Contents map[string]Content
}

// Content is the content of a file as the daemon decodes it, or the error.
type Content struct{ Text, Error string }

// Ask returns what the operator does with the objects. Its error is the operator's.
func (o *Operator) Ask(ctx context.Context, r Request) (a Response, err error) {
	text, err := json.Marshal(struct {
		Request

		Templates string
	}{r, o.templates})
	if err != nil {
		return a, fmt.Errorf("encode the objects: %w", err)
	}
	cmd := exec.CommandContext(ctx, o.program)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), &stderr
	out, err := cmd.Output()
	if err != nil {
		return a, fmt.Errorf("machine-config-operator: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	if err := json.Unmarshal(out, &a); err != nil {
		return a, fmt.Errorf("read the response of the operator: %w", err)
	}
	return a, nil
}

// Render returns the rendered configuration of the pool master from MachineConfigs, one YAML
// document each.
func (o *Operator) Render(ctx context.Context, configs ...[]byte) (*mcfgv1.MachineConfig, error) {
	var r Request
	for _, c := range configs {
		r.MachineConfigs = append(r.MachineConfigs, string(c))
	}
	a, err := o.Ask(ctx, r)
	return a.Rendered, err
}

// Policies returns the active policy of a MachineConfiguration: its entries, and the
// operator's default ones.
func (o *Operator) Policies(ctx context.Context, policy []byte) (operatorv1.NodeDisruptionPolicyClusterStatus, error) {
	a, err := o.Ask(ctx, Request{Policy: string(policy)})
	if err != nil {
		return operatorv1.NodeDisruptionPolicyClusterStatus{}, err
	}
	return *a.Policies, nil
}
