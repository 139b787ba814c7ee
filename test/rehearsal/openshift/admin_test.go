// SPDX-License-Identifier: Apache-2.0

package openshift

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/oc"
)

// The documents whose commands run here. test/suites/delivery holds that a test runs each of their blocks.
const (
	machineConfigGuide = "docs/install/machineconfig.md"
	lifeGuide          = "docs/upgrade-uninstall.md"
)

const (
	service   = "http01-proxyd.service"
	installer = "http01-proxyd-install.service"
	program   = "/usr/local/bin/http01-proxyd"
)

// prelude runs make in the repository and keeps files in this directory.
const prelude = `set -euo pipefail
make() {
	local args=() arg
	for arg in "$@"; do
		case $arg in OUT=* | CONFIG=*) arg="${arg%%=*}=$PWD/${arg#*=}" ;; esac
		args+=("$arg")
	done
	command make --no-print-directory -C "$REPOSITORY" "${args[@]}"
}
`

// admin is the administrator of the cluster.
type admin struct {
	*Cluster

	t   *testing.T
	dir string // with the rendered files
	env []string
}

func newAdmin(t *testing.T) *admin {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: hosts that boot")
	}
	a := &admin{Cluster: shared.Cluster, t: t, dir: t.TempDir()}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(a.Logs(context.Background()))
			t.Log(a.hosts.Diagnosis(context.Background()))
		}
	})
	must(t, a.hosts.Lab.Internet.SetName(t.Context(), "api."+a.hosts.Lab.Domain, a.hosts.Lab.API))
	bin := t.TempDir()
	commands := must1(oc.NewCommands(bin, map[string]oc.Handler{"oc": a.oc}))(t)
	t.Cleanup(func() { must(t, commands.Close()) })
	must(t, os.Symlink(filepath.Join(os.Getenv(binariesVariable), "oc-http01"), filepath.Join(bin, "oc-http01")))
	a.env = slices.Concat(os.Environ(), commands.Environment(), []string{
		"REPOSITORY=" + host.Repository(), "IMAGE=" + shared.images[first], "GOFLAGS=-buildvcs=false",
	})
	return a
}

// oc is kubectl on the gateway of the lab. `oc debug` runs the command on the host without a Pod.
func (a *admin) oc(ctx context.Context, dir string, args ...string) (string, error) {
	if args[0] == "debug" {
		end := slices.Index(args, "--")
		name := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "node/") })
		m := slices.IndexFunc(a.hosts.ControlPlane, func(m *host.Host) bool { return "node/"+m.Name == args[name] })
		command := args[end+3:] // after chroot /host
		return a.hosts.ControlPlane[m].Run(ctx, command[0], command[1:]...)
	}
	node := a.hosts.Lab.Gateway
	kubectl := []string{"--net=/run/netns/" + node.Namespace, a.programs.Kubectl}
	cmd := exec.CommandContext(ctx, "nsenter", append(kubectl, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(node.Dir, "kubeconfig"), "HOME="+a.dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return string(out), err
}

// blocks returns the command blocks of a document by section.
func blocks(t *testing.T, document string) map[string][]string {
	t.Helper()
	text := must1(os.ReadFile(filepath.Join(host.Repository(), filepath.FromSlash(document))))(t)
	all := map[string][]string{}
	for _, part := range regexp.MustCompile(`(?m)^#+ `).Split(string(text), -1)[1:] {
		section, body, _ := strings.Cut(part, "\n")
		for _, found := range regexp.MustCompile("(?ms)^```sh(?:ell)?\n(.*?)^```$").FindAllStringSubmatch(body, -1) {
			all[section] = append(all[section], found[1])
		}
	}
	return all
}

// documented runs a block of a document, word for word, and returns its output.
func (a *admin) documented(document, section string, i int, env ...string) (string, error) {
	a.t.Helper()
	all := blocks(a.t, document)[section]
	if i >= len(all) {
		a.t.Fatalf("%s: %q has %d blocks of commands", document, section, len(all))
	}
	return a.run(all[i], env...)
}

func (a *admin) run(text string, env ...string) (string, error) {
	out, err := lab.Shell(a.t.Context(), a.dir, slices.Concat(a.env, env), prelude+text).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%w\n%s\n%s", err, text, out)
	}
	return string(out), nil
}

// must runs a block, which has to succeed.
func (a *admin) must(document, section string, i int, env ...string) {
	a.t.Helper()
	fmt.Print(must1(a.documented(document, section, i, env...))(a.t))
}

// applyImage applies the configuration in my.yaml with an image, and does not wait for the nodes.
func (a *admin) applyImage(image string) {
	a.t.Helper()
	before := must1(a.Rendered(a.t.Context()))(a.t)
	must1(a.run("make machineconfigs IMAGE=" + image + " CONFIG=my.yaml OUT=rendered\noc apply -f rendered/"))(a.t)
	must(a.t, lab.Eventually(a.t.Context(), "another configuration of the pool", func(ctx context.Context) error {
		name, err := a.Rendered(ctx)
		if err == nil && name == before {
			err = errors.New(name)
		}
		return err
	}))
}

// configure writes the administrator's configuration file.
func (a *admin) configure(content string) {
	a.t.Helper()
	must(a.t, os.WriteFile(filepath.Join(a.dir, "my.yaml"), []byte(content), 0o600))
}

// preflight returns the findings of the documented commands. Without a finding, they predict that no node
// reboots.
func (a *admin) preflight() []string {
	a.t.Helper()
	out, err := a.documented(machineConfigGuide, "Before a change", 0)
	findings := Findings(out)
	if len(findings) == 0 && (err != nil || !strings.Contains(out, "a change of these MachineConfigs reboots no node")) {
		a.t.Fatalf("preflight: %v\n%s", err, out)
	}
	return findings
}

// awaitPreflight waits until preflight reports a finding, and no other.
func (a *admin) awaitPreflight(want string) {
	a.t.Helper()
	must(a.t, lab.Eventually(a.t.Context(), "the finding of preflight", func(context.Context) error {
		if found := a.preflight(); len(found) != 1 || found[0] != want {
			return fmt.Errorf("preflight reports %q, want %s", found, want)
		}
		return nil
	}))
}

func (a *admin) bootIDs() []string {
	a.t.Helper()
	all := make([]string, len(a.hosts.ControlPlane))
	must(a.t, a.hosts.Each(a.t.Context(), func(ctx context.Context, i int, m *host.Host) (err error) {
		all[i], err = bootID(ctx, m)
		return err
	}))
	return all
}

// expect is what a procedure does to the cluster.
type expect struct {
	predicted []string // findings of preflight before the procedure
	reboots   int      // hosts that reboot
	drained   int      // nodes that the controller drains
	lost      bool     // a CA may fail meanwhile
}

// procedure runs a procedure while a CA validates the name of the API every second. It compares the reboots
// with the prediction, by the boot IDs of the hosts.
func (a *admin) procedure(name string, want expect, act func()) {
	a.t.Helper()
	if found := a.preflight(); !slices.Equal(found, want.predicted) && len(found)+len(want.predicted) > 0 {
		a.t.Errorf("%s: preflight reports %q, want %q", name, found, want.predicted)
	}
	must(a.t, a.CreatePods(a.t.Context()))
	before := a.bootIDs()
	stop := a.validate()
	begin := time.Now()
	act()
	must(a.t, a.AwaitUpdated(a.t.Context()))
	took := time.Since(begin)
	result := stop()
	reboots := 0
	for i, id := range a.bootIDs() {
		if id != before[i] {
			reboots++
		}
	}
	drained := must1(a.Drained(a.t.Context()))(a.t)
	fmt.Printf("| %s | %.0f s | predicted %v | %d reboots, %d drained | "+
		"%d validations, %d failed, %d without a result |\n",
		name, took.Seconds(), want.predicted, reboots, drained, result.count, len(result.rejected), len(result.others))
	for _, failure := range slices.Concat(result.rejected[:min(len(result.rejected), 5)], result.others) {
		fmt.Printf("  %s\n", failure)
	}
	if reboots != want.reboots || drained != want.drained {
		a.t.Errorf("%s: %d hosts rebooted and %d were drained, want %d and %d", name, reboots, drained, want.reboots,
			want.drained)
	}
	if len(result.rejected) > 0 && !want.lost {
		a.t.Errorf("%s: %d of %d validations failed", name, len(result.rejected), result.count)
	}
	if 2*len(result.others) >= result.count {
		a.t.Errorf("%s: %d of %d validations have no result", name, len(result.others), result.count)
	}
	if a.t.Failed() {
		a.t.FailNow()
	}
}

// validations are the orders of a CA, of which it rejected some. Others failed for another reason: the CA of the
// lab did not answer in time.
type validations struct {
	count            int
	rejected, others []string
}

// validate has the CA validate the name of the API every second until stop, which waits for the last order.
func (a *admin) validate() (stop func() validations) {
	done := make(chan struct{})
	var running sync.WaitGroup
	var all validations
	running.Go(func() {
		begin := time.Now()
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			_, err := a.hosts.Lab.Certificate(a.t.Context(), lab.Order{Name: "api." + a.hosts.Lab.Domain})
			all.count++
			if err != nil {
				failure := fmt.Sprintf("after %.0f s: %.300s", time.Since(begin).Seconds(), err)
				if strings.Contains(err.Error(), lab.Rejected) {
					all.rejected = append(all.rejected, failure)
				} else {
					all.others = append(all.others, failure)
				}
			}
			select {
			case <-done:
				return
			case <-a.t.Context().Done():
				return
			case <-tick.C:
			}
		}
	})
	return func() validations {
		close(done)
		running.Wait()
		return all
	}
}

// awaitServing waits until all hosts run a release, and the first one serves.
func (a *admin) awaitServing(release string) {
	a.t.Helper()
	ctx := a.t.Context()
	must(a.t, a.hosts.AwaitVIPs(ctx))
	must(a.t, a.hosts.AwaitServing(ctx, a.hosts.ControlPlane[0]))
	must(a.t, a.hosts.Each(ctx, func(ctx context.Context, _ int, m *host.Host) error {
		out, err := m.Run(ctx, "sh", "-c", `sha256sum "/proc/$(systemctl show --property=MainPID --value `+service+`)/exe"`)
		if err == nil && !strings.HasPrefix(out, shared.sums[release]) {
			err = fmt.Errorf("%s runs %s, not the %s release", m, out, release)
		}
		return err
	}))
	must1(a.hosts.Certificate(ctx, "api"))(a.t)
}

// awaitPort waits until the table of the first host redirects to a port, and has the CA validate.
func (a *admin) awaitPort(port int) {
	a.t.Helper()
	m := a.hosts.ControlPlane[0]
	must(a.t, lab.Eventually(a.t.Context(), fmt.Sprintf("port %d on %s", port, m), func(ctx context.Context) error {
		got, err := a.hosts.Status(ctx, m)
		if err == nil && (!got.Table.Present || got.Table.Port != port) {
			err = fmt.Errorf("the table: %+v", got.Table)
		}
		return err
	}))
	must1(a.hosts.Certificate(a.t.Context(), "api"))(a.t)
}

// awaitNode waits until the daemon of a host reports a state, with a reason that contains a text.
func (a *admin) awaitNode(m *host.Host, state, reason string) {
	a.t.Helper()
	must(a.t, lab.Within(a.t.Context(), rolloutLimit, m.Name+" "+state, func(ctx context.Context) error {
		got, why, err := a.NodeState(ctx, m.Name)
		if err == nil && (got != state || !strings.Contains(why, reason)) {
			err = fmt.Errorf("it is %s: %s", got, why)
		}
		return err
	}))
}
