// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestVersionsAgree holds that the test modules require one version of the modules on which
// most packages depend. A package is compiled again for each version of its dependencies,
// and these have more than a thousand dependents.
func TestVersionsAgree(t *testing.T) {
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	shared := []string{
		"github.com/cert-manager/cert-manager", "google.golang.org/genproto/googleapis/rpc", "google.golang.org/grpc",
		"google.golang.org/protobuf",
		"golang.org/x/crypto", "golang.org/x/net", "golang.org/x/sync", "golang.org/x/sys", "golang.org/x/term",
		"golang.org/x/text",
		"k8s.io/api", "k8s.io/apimachinery", "k8s.io/apiserver", "k8s.io/client-go", "k8s.io/component-base",
		"k8s.io/kube-openapi", "k8s.io/utils",
		"sigs.k8s.io/structured-merge-diff/v6",
	}
	folders := []string{"build", "test", "test/rehearsal", "test/rehearsal/programs", "test/support/boulder"}
	versions := map[string]map[string][]string{} // folders by module and version
	for _, folder := range folders {
		cmd := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json")
		cmd.Dir = filepath.Join(root, folder)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("read %s/go.mod: %v", folder, err)
		}
		var file struct {
			Require []struct{ Path, Version string }
		}
		if err := json.Unmarshal(out, &file); err != nil {
			t.Fatalf("read %s/go.mod: %v", folder, err)
		}
		for _, r := range file.Require {
			if versions[r.Path] == nil {
				versions[r.Path] = map[string][]string{}
			}
			versions[r.Path][r.Version] = append(versions[r.Path][r.Version], folder)
		}
	}
	for _, path := range shared {
		if len(versions[path]) == 0 {
			t.Errorf("no module requires %s: correct the list", path)
		}
		if len(versions[path]) > 1 {
			var text strings.Builder
			for version, folders := range versions[path] {
				text.WriteString("\n\t" + version + " in " + strings.Join(folders, ", "))
			}
			t.Errorf("%s has several versions: run go get in the modules with an old one%s", path, text.String())
		}
	}
}
