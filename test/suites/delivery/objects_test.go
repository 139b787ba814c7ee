// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/oc"
)

// objectsCommand replaces oc. It prints the objects as a cluster with the patched CRD does.
// In test/suites/apis the API server itself makes them.
func objectsCommand(_ context.Context, _ string, args ...string) (string, error) {
	switch line := strings.Join(args, " "); line {
	case "get infrastructure cluster -o yaml":
		return testdata("infrastructure.yaml")
	case "get apiserver/cluster infrastructure/cluster -o yaml":
		return testdata("cluster.yaml")
	default:
		return "", fmt.Errorf("no document has the command oc %s", line)
	}
}

func testdata(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(host.Repository(), "cmd", renderer, "testdata", name))
	return string(text), err
}

// TestClusterObjects renders from the cluster's objects with the documented commands.
func TestClusterObjects(t *testing.T) {
	s := newShell(t, map[string]oc.Handler{"oc": objectsCommand})
	output := s.section(openDocument(t, machineConfigGuide, installMark), "From the cluster's own objects",
		"IMAGE=registry.example.com/http01-proxyd@sha256:"+strings.Repeat("1", 64))
	for _, want := range []string{
		"http01proxy.yaml: DefaultDeployment, port 8888; infrastructure.yaml: API VIP 192.0.2.5 and 2001:db8::5, ingress " +
			"VIP 192.0.2.6 and 2001:db8::6",
		"CustomDeployment, port 9888; cluster.yaml: API VIP 192.0.2.5 and 2001:db8::5, ingress VIP 192.0.2.6 and 2001:db8::6",
	} {
		if !strings.Contains(output, want) {
			t.Errorf("no %q in the output:\n%s", want, output)
		}
	}
	if _, err := os.Stat(filepath.Join(s.dir, "rendered", "98-master-http01-proxyd-config.yaml")); err != nil {
		t.Error(err)
	}
}
