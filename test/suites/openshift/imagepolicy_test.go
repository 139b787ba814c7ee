// SPDX-License-Identifier: Apache-2.0

package openshift

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/http01-proxyd/http01-proxyd/test/support/oracle"
)

// requirement is an entry of policy.json (containers-policy.json(5)).
type requirement struct {
	Type           string
	KeyData        []byte
	SignedIdentity struct{ Type string }
}

// TestImagePolicy: the nodes verify our repository with the key of the rendered ClusterImagePolicy, which reloads
// CRI-O and reboots no node.
func TestImagePolicy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key := must1(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	der := must1(x509.MarshalPKIXPublicKey(key.Public()))(t)
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	must(t, os.WriteFile(filepath.Join(dir, "key.pub"), public, 0o600))
	tool(t, dir, "render", "--image", "registry.example.com/a/b@sha256:"+strings.Repeat("0", 64),
		"--signature-policy", "key.pub", "--output-dir", ".")
	file := func(name string) string { return string(must1(os.ReadFile(filepath.Join(dir, name)))(t)) }

	const policy, registries = "/etc/containers/policy.json", "/etc/containers/registries.d/sigstore-registries.yaml"
	want := requirement{Type: "sigstoreSigned", KeyData: public}
	want.SignedIdentity.Type = "matchRepository"
	reload := []operatorv1.NodeDisruptionPolicyStatusAction{{
		Type: operatorv1.ReloadStatusAction, Reload: &operatorv1.ReloadService{ServiceName: "crio.service"},
	}}
	eachRelease(t, func(t *testing.T, _ oracle.Release, o *oracle.Operator) {
		t.Helper()
		answer := ask(t, o, platform{kind: configv1.NonePlatformType}, file("97-image-policy.yaml"))
		var got struct {
			Transports map[string]map[string][]requirement
		}
		must(t, json.Unmarshal([]byte(contents(t, answer, policy)), &got))
		if diff := cmp.Diff([]requirement{want}, got.Transports["docker"]["registry.example.com/a/b"]); diff != "" {
			t.Errorf("policy.json (-want +got):\n%s", diff)
		}
		const attachments = "docker:\n  registry.example.com/a/b:\n    use-sigstore-attachments: true\n"
		if diff := cmp.Diff(attachments, contents(t, answer, registries)); diff != "" {
			t.Errorf("registries.d (-want +got):\n%s", diff)
		}
		active := must1(o.Ask(t.Context(), oracle.Request{
			Policy: file("10-policy/policy.yaml"), Paths: []string{policy, registries},
		}))(t)
		for _, path := range []string{policy, registries} {
			if diff := cmp.Diff(reload, active.Actions[path]); diff != "" {
				t.Errorf("actions of %s (-want +got):\n%s", path, diff)
			}
		}
	})
}
