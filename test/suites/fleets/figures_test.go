// SPDX-License-Identifier: Apache-2.0

package fleets

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const (
	document = "docs/install/fleets.md"
	// What the rollout on paper assumes: minutes from a commit to an updated pool of
	// three nodes, and clusters at once after the first one.
	minutesEach, atOnce = 5, 100
)

var update = flag.Bool("update", false, "write the figures of the document")

// TestFigures computes the table of the document from rendered files.
func TestFigures(t *testing.T) {
	f := newFleet(t)
	overlay := map[string]int{}
	for _, layout := range []string{"kustomize", "argocd", "rhacm"} {
		f.render(t, "--image", image, "--layout", layout, "--output-dir", layout)
		base := f.size(t, layout)
		f.render(t, "--layout", layout, "--cluster", "paris1", "--config", "paris1.yaml", "--output-dir", layout)
		overlay[layout] = f.size(t, layout) - base
	}
	configs := 0
	for _, u := range only(kindConfig, f.build(t, "kustomize/base")) {
		configs += len(toJSON(t, u.Object))
	}
	policies, replicated := f.readGenerator(t, "rhacm").Policies, 0
	for _, p := range policies {
		replicated += len(must1(yaml.YAMLToJSON(f.read(t, "rhacm/"+p.Manifests[0].Path)))(t))
	}
	synced := len(f.build(t, "argocd/base"))

	fleetBase := func(layout string) int { return f.size(t, layout) - overlay[layout] }
	want := []string{
		row("Git: base, kustomize", func(int) string { return size(fleetBase("kustomize")) }),
		row("Git: base, Argo CD", func(int) string { return size(fleetBase("argocd")) }),
		row("Git: base, RHACM", func(int) string { return size(fleetBase("rhacm")) }),
		row("Git: an overlay for each cluster, kustomize or Argo CD", func(n int) string { return size(n * overlay["argocd"]) }),
		row("Git: an overlay for each cluster, RHACM", func(n int) string { return size(n * overlay["rhacm"]) }),
		row("MachineConfigs in all clusters, as JSON", func(n int) string { return size(n * configs) }),
		row("replicated policies in etcd of the RHACM hub", func(n int) string { return size(n * replicated) }),
		// A dry run and an apply for each object, and three reads of the hook.
		row("requests to the clusters, Argo CD", func(n int) string { return count(n * (2*synced + 3)) }),
		// A replicated policy is created, and its status is written twice.
		row("requests to the hub, RHACM", func(n int) string { return count(n * 3 * len(policies)) }),
		// The same for a Policy and a ConfigurationPolicy, and four for the objects.
		row("requests to the clusters, RHACM", func(n int) string { return count(n * (6*len(policies) + 4)) }),
		row("time, one cluster first and then 100 at once", func(n int) string {
			return duration(minutesEach * (1 + (n-1+atOnce-1)/atOnce))
		}),
	}
	path := filepath.Join(repository, filepath.FromSlash(document))
	lines := strings.Split(string(must1(os.ReadFile(path))(t)), "\n")
	var got []string
	for i, line := range lines {
		if j := slices.IndexFunc(want, func(w string) bool { return label(w) == label(line) }); j >= 0 {
			got = append(got, line)
			lines[i] = want[j]
		}
	}
	if *update {
		must(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o666))
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-computed +document):\n%s", document, diff)
	}
}

func label(row string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
	return first
}

func row(label string, figure func(clusters int) string) string {
	cells := []string{label}
	for _, clusters := range []int{1, 100, 5000} {
		cells = append(cells, figure(clusters))
	}
	return "| " + strings.Join(cells, " | ") + " |"
}

// size rounds bytes to two digits.
func size(bytes int) string {
	value, unit := float64(bytes)/1024, "KiB"
	if value >= 1024 {
		value, unit = value/1024, "MiB"
	}
	step := math.Pow(10, math.Floor(math.Log10(value))-1)
	return fmt.Sprintf("%g %s", math.Round(math.Round(value/step)*step*10)/10, unit)
}

func count(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func duration(minutes int) string {
	if minutes < 60 {
		return fmt.Sprintf("%d min", minutes)
	}
	return fmt.Sprintf("%d h %d min", minutes/60, minutes%60)
}

// size returns the bytes of all files below a folder.
func (f fleet) size(t *testing.T, folder string) (bytes int) {
	t.Helper()
	for _, text := range f.tree(t, folder) {
		bytes += len(text)
	}
	return bytes
}
