// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// Versions of the programs, as in programs/go.mod. TestVersions compares them.
const (
	KubernetesVersion  = "v1.36.2"
	CertManagerVersion = "v1.21.2"
	EtcdVersion        = "v3.6.14"
)

// Programs has the paths of the programs.
type Programs struct {
	Etcd        string
	APIServer   string
	CertManager string
	Solver      string
	Kubectl     string
}

// Build compiles the programs, which takes minutes, or returns those that an earlier call
// compiled.
func Build(ctx context.Context) (Programs, error) {
	tools, err := lab.Build(ctx)
	if err != nil {
		return Programs{}, err
	}
	// Without these variables the programs report no version, and cert-manager's User-Agent
	// differs from a release's.
	flags := fmt.Sprintf("-s -w -X %s=%s -X %s=%s",
		"k8s.io/component-base/version.gitVersion", KubernetesVersion,
		"github.com/cert-manager/cert-manager/pkg/util.AppVersion", CertManagerVersion)
	dir, err := lab.BuildModule(ctx, "rehearsal/programs", "-ldflags", flags)
	if err != nil {
		return Programs{}, err
	}
	return Programs{
		Etcd: filepath.Join(dir, "etcd"), APIServer: filepath.Join(dir, "kube-apiserver"),
		CertManager: filepath.Join(dir, "cert-manager"), Solver: tools.Solver, Kubectl: filepath.Join(dir, "kubectl"),
	}, nil
}
