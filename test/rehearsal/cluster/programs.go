// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// Versions of the programs, as in programs/go.mod. TestVersions compares them.
const (
	KubernetesVersion = "v1.36.2"
	EtcdVersion       = "v3.6.14"
)

// certManagerVariable selects an older release of cert-manager, such as 1.20.
const certManagerVariable = "HTTP01_CERT_MANAGER"

const (
	programsModule    = "rehearsal/programs"
	certManagerModule = "github.com/cert-manager/cert-manager"
)

// CertManagerRelease is a release of cert-manager that the lab can run.
type CertManagerRelease string

// The releases.
const (
	CertManager119 CertManagerRelease = "1.19"
	CertManager120 CertManagerRelease = "1.20"
	CertManager121 CertManagerRelease = "1.21"

	NewestCertManager = CertManager121
)

// certManagerVersions are the versions of the releases, as in the files of Modfile.
func certManagerVersions() map[CertManagerRelease]string {
	return map[CertManagerRelease]string{
		CertManager119: "v1.19.5", CertManager120: "v1.20.3", CertManager121: "v1.21.2",
	}
}

// Version returns the version of the release, or nothing if the lab does not have the release.
func (r CertManagerRelease) Version() string { return certManagerVersions()[r] }

// Modfile returns the file of the module of the programs that selects the release.
func (r CertManagerRelease) Modfile() string {
	if r == NewestCertManager {
		return "go.mod"
	}
	return string(r) + ".mod"
}

// Programs has the paths of the programs.
type Programs struct {
	Etcd            string
	APIServer       string
	TokenController string // writes the tokens of ServiceAccounts into their Secrets
	CertManager     string
	Solver          string
	Kubectl         string

	Release CertManagerRelease
	CRDs    string // pattern of the files with the CRDs of that release
}

// Build compiles the programs, which takes minutes, or returns those that an earlier call
// compiled. The environment selects the release of cert-manager.
func Build(ctx context.Context) (Programs, error) {
	release := CertManagerRelease(cmp.Or(os.Getenv(certManagerVariable), string(NewestCertManager)))
	if release.Version() == "" {
		return Programs{}, fmt.Errorf("cannot run cert-manager %s: the lab has %s", release,
			slices.Sorted(maps.Keys(certManagerVersions())))
	}
	tools, err := lab.Build(ctx)
	if err != nil {
		return Programs{}, err
	}
	// Without these variables the programs report no version, and cert-manager's User-Agent
	// differs from a release's.
	flags := fmt.Sprintf("-s -w -X %s=%s -X %s=%s",
		"k8s.io/component-base/version.gitVersion", KubernetesVersion,
		certManagerModule+"/pkg/util.AppVersion", release.Version())
	dir, err := lab.BuildModule(ctx, programsModule, "-modfile="+release.Modfile(),
		"-tags=certmanager"+string(release), "-ldflags", flags)
	if err != nil {
		return Programs{}, err
	}
	source, err := Module(ctx, programsModule, certManagerModule, "-modfile="+release.Modfile())
	if err != nil {
		return Programs{}, err
	}
	return Programs{
		Etcd: filepath.Join(dir, "etcd"), APIServer: filepath.Join(dir, "kube-apiserver"),
		TokenController: filepath.Join(dir, "token-controller"),
		CertManager:     filepath.Join(dir, "cert-manager"), Solver: tools.Solver, Kubectl: filepath.Join(dir, "kubectl"),
		Release: release, CRDs: filepath.Join(source, "deploy/crds/*.yaml"),
	}, nil
}
