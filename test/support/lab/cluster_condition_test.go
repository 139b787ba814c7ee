// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// conditionCommand runs `oc-http01 condition` with the control-plane nodes'
// reports, as docs/reference/cluster-condition.md shows.
type conditionCommand struct {
	t        *testing.T
	program  string
	dir      string
	services []*Service
}

func newConditionCommand(t *testing.T, services []*Service) *conditionCommand {
	t.Helper()
	program, err := BuildCommand(t.Context(), "oc-http01")
	must(t, err)
	return &conditionCommand{t, program, t.TempDir(), services}
}

// collectReports writes each node's report into its file. A service that does not answer
// leaves an empty file.
func (f *conditionCommand) collectReports() {
	f.t.Helper()
	for i, s := range f.services {
		text, err := s.StatusJSON(f.t.Context())
		select {
		case <-s.Exited():
			if err == nil || text != "" {
				f.t.Errorf("report of a stopped service: %q, %v", text, err)
			}
		default:
			must(f.t, err)
		}
		must(f.t, os.WriteFile(filepath.Join(f.dir, fmt.Sprintf("status-master%d.json", i)), []byte(text), 0o600))
	}
}

// run returns the printed condition after Kubernetes' validation.
func (f *conditionCommand) run(flags ...string) (string, metav1.Condition) {
	f.t.Helper()
	args := append([]string{"condition"}, flags...)
	for i := range f.services {
		args = append(args, fmt.Sprintf("status-master%d.json", i))
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(f.t.Context(), f.program, args...)
	cmd.Dir, cmd.Stderr = f.dir, &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || stderr.Len() > 0 {
		f.t.Fatalf("%v: %s", err, &stderr)
	}
	strict := json.NewDecoder(bytes.NewReader(out))
	strict.DisallowUnknownFields()
	var document struct {
		metav1.TypeMeta
		metav1.Condition
	}
	must(f.t, strict.Decode(&document))
	c := document.Condition
	for _, err := range validation.ValidateCondition(c, field.NewPath("condition")) {
		f.t.Error(err)
	}
	codes := map[metav1.ConditionStatus]int{metav1.ConditionTrue: 0, metav1.ConditionFalse: 3, metav1.ConditionUnknown: 4}
	if code := cmd.ProcessState.ExitCode(); code != codes[c.Status] {
		f.t.Errorf("exit code %d with status %s", code, c.Status)
	}
	return string(out), c
}

// expect runs the command with and without the previous condition and expects the same
// result, because the hosts report the transition time. A repetition must print the same.
func (f *conditionCommand) expect(previous string, status, reason, message string) (string, time.Time) {
	f.t.Helper()
	f.collectReports()
	text, c := f.run()
	if string(c.Status) != status || c.Reason != reason || !strings.Contains(c.Message, message) {
		f.t.Errorf("it is %s, %s: %s; want %s, %s: %s", c.Status, c.Reason, c.Message, status, reason, message)
	}
	if previous != "" {
		must(f.t, os.WriteFile(filepath.Join(f.dir, "previous.json"), []byte(previous), 0o600))
		if with, _ := f.run("--previous", "previous.json"); with != text {
			f.t.Errorf("with the previous condition (-without +with):\n%s", cmp.Diff(text, with))
		}
	}
	must(f.t, os.WriteFile(filepath.Join(f.dir, "previous.json"), []byte(text), 0o600))
	f.collectReports()
	if again, _ := f.run("--previous", "previous.json"); again != text {
		f.t.Errorf("repeated (-first +second):\n%s", cmp.Diff(text, again))
	}
	return text, c.LastTransitionTime.Time
}

// TestClusterCondition combines the reports of all control-plane nodes before, during and
// after a failover and with one service stopped. Condition and transition time must be
// correct.
func TestClusterCondition(t *testing.T) {
	l, _ := cluster(t)
	services := startAll(t, l)
	f := newConditionCommand(t, services)
	both := l.API.Both()
	held := func(master int) string {
		return fmt.Sprintf("%v is held and served by master%d", both[0], master)
	}
	before := func(when time.Time) time.Time { return when.Truncate(time.Second) }

	text, started := f.expect("", "True", "Serving", held(0))
	if !strings.Contains(text, fmt.Sprintf("%v is held and served by master0", both[1])) {
		t.Errorf("the second family is missing: %s", text)
	}

	// Without keepalived no node has the VIPs. Transitions within one second could not be
	// distinguished.
	must(t, Eventually(t.Context(), "the next second", func(context.Context) error {
		if now := before(time.Now()); !now.After(started) {
			return fmt.Errorf("it is %v", now)
		}
		return nil
	}))
	down := make(map[*ControlPlaneNode]bool)
	t.Cleanup(func() {
		for m := range down {
			if err := m.StartKeepalived(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	stopped := before(time.Now())
	for _, i := range []int{1, 2, 0} {
		must(t, l.ControlPlane[i].StopKeepalived(t.Context()))
		down[l.ControlPlane[i]] = true
	}
	awaitNoVIP(t, services, both[0].String(), both[1].String())
	text, lost := f.expect(text, "False", "VIPNotHeld", ": check keepalived on master0, master1 and master2")
	if lost.Before(stopped) {
		t.Errorf("lost at %v, and keepalived was stopped at %v", lost, stopped)
	}

	moved := before(time.Now())
	must(t, l.ControlPlane[1].StartKeepalived(t.Context()))
	delete(down, l.ControlPlane[1])
	awaitHolder(t, l, services, 1)
	text, served := f.expect(text, "True", "Serving", held(1))
	if served.Before(moved) {
		t.Errorf("served since %v, and keepalived was started at %v", served, moved)
	}

	// A stopped service does not answer. The transition time is that of its report file,
	// and stays.
	start := before(time.Now())
	stop(t, services[2])
	f.collectReports()
	must(t, os.WriteFile(filepath.Join(f.dir, "previous.json"), []byte(text), 0o600))
	unknown, c := f.run("--previous", "previous.json")
	if c.Status != metav1.ConditionUnknown || c.Reason != "NotReachable" || !strings.Contains(c.Message, "master2: status-master2.json: the report is empty") || c.LastTransitionTime.Time.Before(start) {
		t.Errorf("with one stopped since %v: %s", start, unknown)
	}
	must(t, os.WriteFile(filepath.Join(f.dir, "previous.json"), []byte(unknown), 0o600))
	must(t, os.Chtimes(filepath.Join(f.dir, "status-master2.json"), time.Time{}, time.Now().Add(time.Hour)))
	if again, _ := f.run("--previous", "previous.json"); again != unknown {
		t.Errorf("repeated an hour later (-first +second):\n%s", cmp.Diff(unknown, again))
	}

	// With the holder stopped too, the other reports do not show a failure.
	stop(t, services[1])
	f.collectReports()
	if _, c := f.run(); c.Status != metav1.ConditionUnknown || !strings.Contains(c.Message, "master1: ") {
		t.Errorf("with the holder stopped: %+v", c)
	}
}

// awaitNoVIP waits until no control-plane node has any of the VIPs.
func awaitNoVIP(t *testing.T, services []*Service, vips ...string) {
	t.Helper()
	for _, s := range services {
		_, err := s.Await(t.Context(), "no VIP", func(seen Status) error {
			for _, vip := range vips {
				if state := seen.VIPState(vip); state != "Standby" {
					return fmt.Errorf("%s is %s", vip, state)
				}
			}
			return nil
		})
		must(t, err)
	}
}
