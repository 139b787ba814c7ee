// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/oc"
)

// lastRelease is the last tagged release. It has its own source, unlike releases.
const lastRelease = "last-release"

// lastSource clones the repository into a directory with the source of the last release, and builds its programs
// in bin. A commit with a tag follows the release before. Without a tag, the first release candidate is tagged in
// the clone.
const lastSource = `candidate=0b5a8587c0b88b2c9f2ca45ca06be3df842824d8
git clone --quiet --shared --no-checkout . "$1"
cd "$1"
if ! tag=$(git describe --tags --abbrev=0 --match='v[0-9]*' HEAD^ 2>/dev/null); then
	tag=v0.9.0
	if ! git rev-parse --quiet --verify "$candidate^{commit}" >/dev/null; then
		echo "the clone has neither a tag of a release nor the commit $candidate: run git fetch --unshallow --tags" >&2
		exit 1
	fi
	git tag --no-sign "$tag" "$candidate"
fi
git checkout --quiet "$tag"
make --no-print-directory build`

func buildLastRelease(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "sh", "-ec", lastSource, "sh", dir)
	cmd.Dir = host.Repository()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOGC=400")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the last release: %w\n%s", err, out)
	}
	return nil
}

func sourceOfLastRelease() string { return filepath.Join(os.Getenv(binariesVariable), lastRelease) }

// withDebugPods adds what oc http01 status runs to oc: the list of nodes, and debug pods.
func (s *testbed) withDebugPods(other oc.Handler) oc.Handler {
	return func(ctx context.Context, dir string, args ...string) (string, error) {
		i := slices.IndexFunc(s.ControlPlane, func(m *host.Host) bool { return slices.Contains(args, "node/"+m.Name) })
		switch {
		case i >= 0:
			return debugOn(s.ControlPlane[i])(ctx, dir, args...)
		case len(args) > 1 && args[1] == "nodes":
			var items []map[string]any
			for _, m := range s.ControlPlane {
				items = append(items, map[string]any{"metadata": map[string]any{"name": m.Name}})
			}
			text, err := json.Marshal(map[string]any{"kind": "List", "items": items})
			return string(text), err
		}
		return other(ctx, dir, args...)
	}
}

// anyRelease is the section of lifeGuide with commands that each release supports.
const anyRelease = "A release without rollout"

// TestFromLastRelease installs the last release on three hosts, upgrades them to this source and returns, while a
// CA requests challenges. No request may fail. The service accepts the configuration and the state of the other
// release, and `oc http01 status` shows nodes of both.
func TestFromLastRelease(t *testing.T) {
	a := newAdmin(t)
	source := sourceOfLastRelease()
	must(t, a.push(t.Context(), lastRelease, filepath.Join(source, "bin", "http01-proxyd")))
	ofLast := []string{"REPOSITORY=" + source, "OLD_IMAGE=" + a.images[lastRelease]}
	name := "load." + a.Lab.Domain
	config := "mode: CustomDeployment\ncustomDeployment: {internalPort: 9888}\nhosts: [" + name + "]\n" +
		"metrics: {listenAddress: \":9645\"}\n"
	a.write("my.yaml", config)

	a.setRelease(lastRelease)
	a.step("installation of the last release", 1, func() { a.section(a.life, anyRelease, ofLast...) })
	a.expectRelease(lastRelease, config)

	a.underLoad("upgrade from the last release", name, func() { a.upgradeTo(first) })
	a.expectRelease(first, config)

	a.write("newer.yaml", config+"keyOfANewerRelease: true\n")
	out, err := a.run(t.Context(), `make machineconfigs IMAGE="$OLD_IMAGE" CONFIG=newer.yaml OUT=rejected`, ofLast...)
	if err == nil || !strings.Contains(out, `unknown key "keyOfANewerRelease"`) {
		t.Errorf("the last release renders a key that it does not know: %v\n%s", err, out)
	}

	a.setRelease(lastRelease)
	a.underLoad("return to the last release", name, func() { a.section(a.life, anyRelease, ofLast...) })
	a.expectRelease(lastRelease, config)
}

// underLoad runs a change of the release while a CA requests challenges, and examines the status after each node.
func (a *admin) underLoad(what, name string, change func()) {
	a.t.Helper()
	load := must1(a.Lab.Validate(a.t.Context(), name, loadInterval))(a.t)
	changed := 0
	var wrong error
	a.cluster.AfterNode = func(ctx context.Context, node string) {
		changed++
		if err := a.checkVersions(ctx, changed); err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("oc http01 status after the change of %s: %w", node, err))
		}
	}
	a.step(what, 1, change)
	a.cluster.AfterNode = nil
	must(a.t, wrong)
	expectNoneLost(a.t, load)
}

// expectNoneLost ends a load, and fails if a connection was refused or a response was wrong.
func expectNoneLost(t *testing.T, load *lab.Validation) {
	t.Helper()
	for i, r := range must1(load.End(t.Context()))(t) {
		fmt.Printf("    IPv%d: %d requests, %d refused, %d failed; p50 %v, p99 %v, at most %v\n",
			4+2*i, r.Requests, r.Refused, r.Lost, ms(r.P50), ms(r.P99), ms(r.Max))
		if r.Lost > 0 || r.Requests < requestsInAChange {
			t.Errorf("IPv%d: %d requests, %d failed: %q", 4+2*i, r.Requests, r.Lost, r.Errors)
		}
	}
}

func ms(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// The load has ten requests of each family in an interval. requestsInAChange is a lower bound.
const (
	loadInterval      = 100 * time.Millisecond
	requestsInAChange = 20
)

// checkVersions returns an error unless `oc http01 status` shows all nodes, and the first ones have another version
// than the others. With nodes of two versions it must report that.
func (a *admin) checkVersions(ctx context.Context, changed int) error {
	text, err := a.run(ctx, "oc http01 status -o json")
	if err != nil {
		return err
	}
	type problem struct{ ID, Message string }
	var seen struct {
		Nodes []struct {
			Name, Version string
			Reported      bool
			Condition     lab.Condition
		}
		Problems []problem
	}
	if err := json.Unmarshal([]byte(text), &seen); err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	versions := map[string]int{}
	for i, n := range seen.Nodes {
		if !n.Reported || n.Condition.Status != "True" || (n.Version == seen.Nodes[0].Version) != (i < changed) {
			return fmt.Errorf("%s: %+v", n.Name, seen)
		}
		versions[n.Version]++
	}
	differ := slices.ContainsFunc(seen.Problems, func(p problem) bool { return p.ID == "versions-differ" })
	if differ != (changed < len(a.ControlPlane)) || len(seen.Nodes) != len(a.ControlPlane) {
		return fmt.Errorf("%+v", seen)
	}
	fmt.Println("    nodes by version:", versions)
	return nil
}

// expectRelease waits until all hosts run a release, and expects that it uses a configuration, and that its
// metrics are served.
func (a *admin) expectRelease(release, config string) {
	a.t.Helper()
	a.awaitRelease(release)
	a.awaitPort(9888)
	a.each(a.t, func(ctx context.Context, _ int, m *host.Host) error {
		got, err := a.Status(ctx, m)
		if err != nil {
			return err
		}
		accepted, err := m.ReadFile("/var/lib/private/http01-proxyd/state/last-accepted.yaml")
		if err == nil && (got.Config != lab.Config{Source: "file"} || accepted != config || !got.Metrics.Served) {
			err = fmt.Errorf("%s with the %s release: configuration %+v, accepted %q, metrics %+v",
				m, release, got.Config, accepted, got.Metrics)
		}
		return err
	})
}
