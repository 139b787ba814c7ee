// SPDX-License-Identifier: Apache-2.0

package machineconfig_test

import (
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/install"
)

// TestHostWrittenPaths: a MachineConfig delivers no file that the installer writes or removes: the
// machine-config-daemon marks a node degraded if its files differ from the MachineConfigs. The
// names come from the script, with the values of its variables, and from the unit that removes all
// files.
func TestHostWrittenPaths(t *testing.T) {
	t.Parallel()
	script := source(t, "systemd/http01-proxyd-install")
	values := map[string]string{}
	expand := func(name string) string {
		if _, value, ok := strings.Cut(name, ":-"); ok {
			return value
		}
		return values[name]
	}
	for _, found := range regexp.MustCompile(`(?m)^([a-z_]+)=(\S+)`).FindAllStringSubmatch(script, -1) {
		values[found[1]] = os.Expand(found[2], expand)
	}
	others := []string{
		"/usr/local/bin", "/usr/local/bin/http01-proxyd-install", "/usr/local/lib/systemd",
		"/usr/local/lib/systemd/catalog", "/usr/local/lib/systemd/system", "/var/lib/kubelet/config.json",
	}
	files := make(map[string]bool)
	words := regexp.MustCompile(`(?:\$[a-z_]+|/(?:usr/local|run|var)/)[\w./$-]*`)
	for _, word := range words.FindAllString(script+install.Remover, -1) {
		file := strings.TrimRight(os.Expand(word, expand), "./")
		if regexp.MustCompile(`^/(usr/local|run|var)/`).MatchString(file) && !slices.Contains(others, file) {
			files[file] = true
		}
	}
	for _, r := range []machineconfig.Request{{Image: image, Pool: "master"}, {Layered: true, Pool: "master"}} {
		for _, o := range render(t, r) {
			for _, file := range read(t, o).Ignition.Storage.Files {
				if files[file.Path] {
					t.Errorf("%s is delivered", file.Path)
				}
			}
		}
	}
	for _, file := range []string{
		values["program"], values["next"], values["program"] + ".previous", values["units"] + "/" + values["remover"],
		values["run"] + "/lock",
	} {
		if !files[file] {
			t.Errorf("%q was not found in the script", file)
		}
	}
}

// noise returns text that does not compress.
func noise(size int) []byte {
	out := make([]byte, size)
	for i, r := 0, rand.New(rand.NewPCG(1, 2)); i < len(out); i++ {
		out[i] = byte(r.Uint32())
	}
	return out
}

// TestScriptColumns: an auditor reads both scripts, so their lines have at most 120 columns.
func TestScriptColumns(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"systemd/http01-proxyd-install", "pkg/cluster/disruption/apply.sh"} {
		for i, line := range strings.Split(source(t, name), "\n") {
			if len(line) > 120 {
				t.Errorf("%s:%d has %d columns", name, i+1, len(line))
			}
		}
	}
}
