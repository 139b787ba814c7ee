// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/http01-proxyd/http01-proxyd/test/support/debian"
	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/oracle"
)

// infrastructure describes a cluster without a platform, whose templates the operator renders.
const infrastructure = `{"status": {"platform": "None", "platformStatus": {"type": "None"},
	"controlPlaneTopology": "HighlyAvailable", "infrastructureTopology": "HighlyAvailable",
	"apiServerURL": "https://api.ostest.example.com:6443",
	"apiServerInternalURI": "https://api-int.ostest.example.com:6443"}}`

// containersTree returns the tree with podman and skopeo that know sigstore.
func containersTree(ctx context.Context) (debian.Tree, error) {
	return debian.Containers(ctx, filepath.Join(host.Repository(), ".cache"))
}

// usePodman replaces the podman of the host until the test ends.
func (n *node) usePodman(tree debian.Tree) {
	n.t.Helper()
	const folder = "/pod"
	for name, text := range must1(tree.Moved(n.t.Context(), "usr/bin/podman", folder))(n.t) {
		must(n.t, n.WriteFile(filepath.Join(folder, name), text, 0o755))
	}
	const wrapper = "#!/bin/sh\nLD_LIBRARY_PATH=" + folder + " exec " + folder + "/podman \"$@\"\n"
	n.runScript("mv /usr/bin/podman /usr/bin/podman.away")
	n.t.Cleanup(func() {
		must1(n.Run(context.Background(), "mv", "/usr/bin/podman.away", "/usr/bin/podman"))(n.t)
		must(n.t, n.RemoveFile(folder))
	})
	must(n.t, n.WriteFile("/usr/bin/podman", wrapper, 0o755))
}

// signer is the machine of the one who releases, with skopeo and the credentials of the registry's owner.
type signer struct {
	*node

	dir, skopeo string
}

func (n *node) newSigner(tree debian.Tree) signer {
	s := signer{n, n.t.TempDir(), strings.Join(tree.Command("usr/bin/skopeo"), " ")}
	addresses := n.Lab.Internet.Addresses
	for name, text := range map[string]string{
		"auth.json": must1(n.Registry.OwnerAuthfile())(n.t), "ca.pem": n.Registry.CA(), "passphrase": "secret",
		"hosts": addresses.V4.String() + " " + n.Registry.Name + "\n",
	} {
		must(n.t, os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600))
	}
	return s
}

// run runs a script in the signer's folder. make is the one of the repository.
func (s signer) run(script string) {
	s.t.Helper()
	must1(s.Lab.Internet.Input(s.t.Context(), `set -eu
mount --bind hosts /etc/hosts
export REGISTRY_AUTH_FILE=$PWD/auth.json SSL_CERT_FILE=$PWD/ca.pem
skopeo() { $SKOPEO "$@"; }
sign_image() { make --no-print-directory -C "$REPOSITORY" -f build/release.mk sign-image SKOPEO="$SKOPEO" \
	DIST="$PWD/dist" PASSPHRASE_FILE="$PWD/passphrase" "$@"; }
`+script, "env", "-C", s.dir, "SKOPEO="+s.skopeo, "REPOSITORY="+host.Repository(), "unshare", "--mount", "bash"))(s.t)
}

// TestImageSignature: nodes install an image with the signatures of `make sign-image`, and refuse others. The
// operator derives what podman reads from the rendered ClusterImagePolicy.
func TestImageSignature(t *testing.T) {
	n := newServingNode(t)
	tree := must1(containersTree(t.Context()))(t)
	n.usePodman(tree)
	s := n.newSigner(tree)
	image, before := n.images[second], n.starts()
	repository, _, _ := strings.Cut(image, "@")
	s.run(`for name in ours others; do
	skopeo generate-sigstore-key --output-prefix $name --passphrase-file passphrase
done
mkdir dist
skopeo --insecure-policy copy --all docker://` + image + ` oci:dist/image
echo ` + image + ` | cut -d @ -f 2 >dist/image.digest`)

	must1(n.shell.run(t.Context(), renderer+" render --output-dir signed --image "+image+" --signature-policy "+
		filepath.Join(s.dir, "ours.pub")))(t)
	var cluster configv1.Infrastructure
	must(t, json.Unmarshal([]byte(infrastructure), &cluster))
	rendered := must1(n.operator.Ask(t.Context(), oracle.Request{
		Infrastructure: &cluster, MachineConfigs: []string{n.shell.read("signed/97-image-policy.yaml")},
	}))(t)
	const registries = "/etc/containers/registries.d/sigstore-registries.yaml"
	t.Cleanup(n.replaceFile(policyFile, rendered.Contents[policyFile].Text))
	must(t, n.WriteFile(registries, rendered.Contents[registries].Text, 0o644))
	t.Cleanup(func() { must(t, n.RemoveFile(filepath.Dir(registries))) })

	const invalid = "requires a valid signature: the signatures of the image are by another key, or for another repository"
	sign := `skopeo --insecure-policy --registries.d "$REPOSITORY/build/registries.d" copy --preserve-digests ` +
		"--sign-by-sigstore-private-key ours.private --sign-passphrase-file passphrase oci:dist/image docker://" +
		repository + ":v2 "
	for _, tt := range []struct{ name, script, want, podman string }{
		{"unsigned", ":", "requires a signature, and the image has none", "no signature exists"},
		{"another key", `sign_image KEY="$PWD/others.private" PUSH=` + repository + ":v2", invalid, "invalid signature"},
		{"the index only", sign + "--multi-arch index-only", invalid, "invalid signature"},
		{"for another name", sign + "--all --sign-identity quay.io/a/b:v2", invalid, "is not accepted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.run(tt.script)
			n.require(image, n.sums[second])
			n.awaitInstaller(t, n.Host, "cannot pull "+image+": policy.json of this host "+tt.want, "status=1/FAILURE")
			got := n.runScript("journalctl --sync; journalctl --boot --unit=" + installer +
				" --output=cat --grep='^podman: Error:' | tail -n 1")
			if t.Log(got); !strings.Contains(got, tt.podman) {
				t.Errorf("podman reports another cause than %q", tt.podman)
			}
		})
	}
	must(t, n.checkRelease(t.Context(), n.Host, first))
	if got := n.starts(); got != before {
		t.Errorf("the service started %d times meanwhile", got-before)
	}
	s.run(`sign_image KEY="$PWD/ours.private" PUSH=` + repository + ":v2")
	n.require(image, n.sums[second])
	n.awaitInstaller(t, n.Host, "is installed: http01-proxyd")
	must(t, n.checkRelease(t.Context(), n.Host, second))
}
