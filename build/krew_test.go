// SPDX-License-Identifier: Apache-2.0

package build_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// krewVersion is the release of krew that validates and installs the plugin.
const krewVersion = "v0.5.0"

// newClients compiles kubectl, krew and its validator, and returns the environment with them in PATH.
func newClients(t *testing.T) []string {
	t.Helper()
	programs, root := t.TempDir(), t.TempDir()
	for _, line := range []string{
		"go install sigs.k8s.io/krew/cmd/{krew,validate-krew-manifest}@" + krewVersion,
		"ln -s krew $GOBIN/kubectl-krew",
		"go -C ../test/rehearsal/programs build -o $GOBIN/ ./kubectl",
	} {
		if out, err := run(t, ".", []string{"GOBIN=" + programs, "CGO_ENABLED=0"}, "bash", "-c", line); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	return []string{
		"KREW_ROOT=" + root, "KREW_NO_UPGRADE_CHECK=1",
		"PATH=" + filepath.Join(root, "bin") + ":" + programs + ":" + os.Getenv("PATH"),
	}
}

// checkPlugin validates the plugin of a release by krew's own program, installs it, and runs it. krew
// downloads the archives from a server in place of the release's page.
func checkPlugin(t *testing.T, dist string) {
	t.Helper()
	work := t.TempDir()
	server := httptest.NewServer(http.FileServer(http.Dir(dist)))
	t.Cleanup(server.Close)
	const page = "https://github.com/http01-proxyd/http01-proxyd/releases/download/" + version
	archive := "http01-" + runtime.GOOS + "-" + runtime.GOARCH + ".tar.gz"
	env := append(newClients(t), "DIST="+dist, "PAGE="+page, "SERVER="+server.URL, "ARCHIVE="+archive,
		"KREW_DEFAULT_INDEX_URI="+filepath.Join(work, "index"))

	for _, tt := range []struct {
		line, want string
		fails      bool
	}{
		{
			`sed "s|$PAGE|$SERVER|" $DIST/http01.yaml >http01.yaml && validate-krew-manifest -manifest http01.yaml`,
			"all 1 spec.platforms installed fine", false,
		},
		{"(cat $DIST/$ARCHIVE; echo tampered) >tampered.tar.gz", "", false},
		{"kubectl krew install --manifest=http01.yaml --archive=tampered.tar.gz", "checksum does not match", true},
		{"kubectl http01 version", `unknown command "http01"`, true},
		{"kubectl krew install --manifest=$DIST/http01.yaml --archive=$DIST/$ARCHIVE", "Installed plugin: http01", false},
		{"kubectl plugin list", "/bin/kubectl-http01", false},
		{"kubectl http01 version", "oc-http01 " + version + " ", false},
		{"kubectl http01 render", "; see kubectl http01 render --help", true},
		{
			"tar -xf $DIST/$ARCHIVE && cmp LICENSE $DIST/../LICENSE && ./oc-http01 render",
			"; see oc http01 render --help", true,
		},
		{
			"git init --quiet index && mkdir index/plugins && mv http01.yaml index/plugins/ && cd index && git add . && " +
				"git commit --quiet --no-gpg-sign --message=http01 && kubectl krew update && kubectl krew search http01",
			"Install http01-proxyd on a cluster and examine it", false,
		},
		{"kubectl krew uninstall http01", "Uninstalled plugin: http01", false},
		{"kubectl http01 version", `unknown command "http01"`, true},
		{"kubectl krew install http01 && kubectl http01 version", "oc-http01 " + version + " ", false},
	} {
		out, err := run(t, work, env, "bash", "-c", tt.line)
		if (err != nil) != tt.fails || !strings.Contains(out, tt.want) {
			t.Errorf("%s: %v, want %q in\n%s", tt.line, err, tt.want, out)
		}
	}
}
