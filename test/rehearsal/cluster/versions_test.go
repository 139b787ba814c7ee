// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"os"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/cluster"
)

// TestVersions checks that the versions of the programs are the versions of their module.
func TestVersions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../programs/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for module, version := range map[string]string{
		"k8s.io/kubernetes": cluster.KubernetesVersion, "github.com/cert-manager/cert-manager": cluster.CertManagerVersion,
		"go.etcd.io/etcd/server/v3": cluster.EtcdVersion,
	} {
		if !strings.Contains(string(text), "\t"+module+" "+version+"\n") {
			t.Errorf("programs/go.mod does not require %s %s", module, version)
		}
	}
}
