// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/cluster"
)

// TestVersions checks that the versions of the programs are the versions of their module.
func TestVersions(t *testing.T) {
	t.Parallel()
	for _, release := range []cluster.CertManagerRelease{
		cluster.CertManager119, cluster.CertManager120, cluster.CertManager121,
	} {
		text, err := os.ReadFile("../programs/" + release.Modfile())
		if err != nil {
			t.Fatal(err)
		}
		for module, version := range map[string]string{
			"k8s.io/kubernetes": cluster.KubernetesVersion, "github.com/cert-manager/cert-manager": release.Version(),
			"go.etcd.io/etcd/server/v3": cluster.EtcdVersion,
		} {
			if !strings.Contains(string(text), "\t"+module+" "+version+"\n") {
				t.Errorf("programs/%s does not require %s %s", release.Modfile(), module, version)
			}
		}
	}
}

// TestReleases checks the table of docs/reference/cert-manager.md in the source of each release: a text is in a
// file of the releases in the list, and in no other one.
func TestReleases(t *testing.T) {
	t.Parallel()
	const (
		selfCheck = "pkg/issuer/acme/http/http.go"
		options   = "pkg/apis/config/controller/v1alpha1/types.go"
		crds      = "deploy/crds/"
		gates     = "internal/controller/feature/features.go"
		approver  = "pkg/controller/certificaterequests/approver/sync.go"
		approval  = "internal/webhook/admission/certificaterequest/approval/certificaterequest_approval.go"
	)
	all := []cluster.CertManagerRelease{cluster.CertManager119, cluster.CertManager120, cluster.CertManager121}
	for _, release := range all {
		source, err := cluster.Module(t.Context(), "rehearsal/programs", "github.com/cert-manager/cert-manager",
			"-modfile="+release.Modfile())
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range []struct {
			file, text string
			releases   []cluster.CertManagerRelease
		}{
			{selfCheck, `"did not get expected response when querying endpoint, expected %q but got: %s"`, all[:2]},
			{selfCheck, `"did not get expected response %q when querying endpoint"`, all[2:]},
			{crds + "acme.cert-manager.io_challenges.yaml", "waitInsteadOfSelfCheck:", all[2:]},
			{options, `"certificateRequestMinimumBackoffDuration,omitempty"`, all[1:]},
			{options, `"certificateRequestMaximumBackoffDuration,omitempty"`, all[2:]},
			{crds + "cert-manager.io_certificates.yaml", " renewal:\n", all[2:]},
			{gates, "ACMEHTTP01IngressPathTypeExact:                   {Default: true,", all},
			{gates, "ACMEUseARI:                                       {Default: false,", all[2:]},
			{approver, "cmapi.CertificateRequestConditionApproved,\n\t\tcmmeta.ConditionTrue,", all},
			{approval, `"user %q does not have permissions to set approved/denied conditions for issuer %v"`, all},
			{
				"deploy/charts/cert-manager/templates/rbac.yaml",
				"resources: [\"challenges\", \"orders\"]\n    verbs: [\"create\", \"delete\",", all[:1],
			},
		} {
			text, err := os.ReadFile(filepath.Join(source, row.file))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := strings.Contains(string(text), row.text), slices.Contains(row.releases, release); got != want {
				t.Errorf("cert-manager %s: %s contains %q: %v, want %v", release, row.file, row.text, got, want)
			}
		}
	}
}
