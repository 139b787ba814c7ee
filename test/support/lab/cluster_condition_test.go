// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// clusterCondition returns the condition of the cluster after Kubernetes' validation. The report of a
// stopped service is that it is not running.
func clusterCondition(t *testing.T, services []*Service) metav1.Condition {
	t.Helper()
	reports := map[string]string{}
	for i, s := range services {
		text, err := s.StatusJSON(t.Context())
		select {
		case <-s.Exited():
			if err == nil || !strings.Contains(text, `"NotRunning"`) {
				t.Errorf("report of a stopped service: %q, %v", text, err)
			}
		default:
			must(t, err)
		}
		reports[fmt.Sprintf("master%d", i)] = text
	}
	out, code, err := ClusterCondition(t.Context(), t.TempDir(), reports)
	must(t, err)
	strict := json.NewDecoder(bytes.NewReader(out))
	strict.DisallowUnknownFields()
	var document struct {
		metav1.TypeMeta
		metav1.Condition
	}
	must(t, strict.Decode(&document))
	c := document.Condition
	for _, err := range validation.ValidateCondition(c, field.NewPath("condition")) {
		t.Error(err)
	}
	codes := map[metav1.ConditionStatus]int{metav1.ConditionTrue: 0, metav1.ConditionFalse: 3, metav1.ConditionUnknown: 4}
	if code != codes[c.Status] {
		t.Errorf("exit code %d with status %s", code, c.Status)
	}
	return c
}

// expectCondition expects a condition, twice: the hosts report the transition time.
func expectCondition(t *testing.T, services []*Service, status, reason, message string) (string, time.Time) {
	t.Helper()
	c := clusterCondition(t, services)
	if string(c.Status) != status || c.Reason != reason || !strings.Contains(c.Message, message) {
		t.Errorf("it is %s, %s: %s; want %s, %s: %s", c.Status, c.Reason, c.Message, status, reason, message)
	}
	if diff := cmp.Diff(c, clusterCondition(t, services)); diff != "" {
		t.Errorf("repeated (-first +second):\n%s", diff)
	}
	return c.Message, c.LastTransitionTime.Time
}

// TestClusterCondition combines the reports of all control-plane nodes before, during and
// after a failover and with one service stopped. Condition and transition time must be
// correct.
func TestClusterCondition(t *testing.T) {
	l, _ := cluster(t)
	services := startAll(t, l)
	both := l.API.Both()
	held := func(master int) string {
		return fmt.Sprintf("%v is held and served by master%d", both[0], master)
	}
	before := func(when time.Time) time.Time { return when.Truncate(time.Second) }

	text, started := expectCondition(t, services, "True", "Serving", held(0))
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
	_, lost := expectCondition(t, services, "False", "VIPNotHeld", "no host holds ")
	if lost.Before(stopped) {
		t.Errorf("lost at %v, and keepalived was stopped at %v", lost, stopped)
	}

	moved := before(time.Now())
	must(t, l.ControlPlane[1].StartKeepalived(t.Context()))
	delete(down, l.ControlPlane[1])
	awaitHolder(t, l, services, 1)
	_, served := expectCondition(t, services, "True", "Serving", held(1))
	if served.Before(moved) {
		t.Errorf("served since %v, and keepalived was started at %v", served, moved)
	}

	// A stopped service is no unreachable node.
	start := before(time.Now())
	stop(t, services[2])
	c := clusterCondition(t, services)
	if c.Status != metav1.ConditionUnknown || c.Reason != "NotRunning" || !strings.Contains(c.Message, "master2: ") ||
		c.LastTransitionTime.Time.Before(start) {
		t.Errorf("with one stopped since %v: %+v", start, c)
	}

	// With the holder stopped too, the other reports do not show a failure.
	stop(t, services[1])
	if c := clusterCondition(t, services); c.Status != metav1.ConditionUnknown || !strings.Contains(c.Message,
		"master1: ") {
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
