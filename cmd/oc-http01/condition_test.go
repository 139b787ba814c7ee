// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
)

// TestCondition: the condition of the cluster in every format, with the exit code.
func TestCondition(t *testing.T) {
	serving, standby := statusOf("Serving", "Held"), statusOf("Standby", "Standby")
	const message = "192.0.2.5 is held and served by master0; 2 hosts have reported"
	want := map[string]string{
		"apiVersion": "http01-proxyd.github.io/v1alpha1", "kind": "ClusterCondition",
		"type": "HTTP01ChallengeProxyReady", "status": "True", "reason": "Serving", "message": message, "lastTransitionTime": "2026-01-02T03:04:05Z",
	}
	installOC(t, map[string]string{"master0": serving, "master1": standby})
	for _, format := range []string{"json", "yaml"} {
		got := runLine(t, "", "condition", "-o", format)
		var document map[string]string
		must(t, yaml.Load([]byte(got.out), &document))
		if diff := cmp.Diff(want, document); got.code != cli.OK || got.err != "" || diff != "" {
			t.Errorf("%s: %+v (-want +got):\n%s", format, got, diff)
		}
	}
	for name, tt := range map[string]struct {
		outputs map[string]string
		code    int
		want    string
	}{
		"ready":       {map[string]string{"master0": serving, "master1": standby}, cli.OK, "=True (Serving) since 2026-01-02T03:04:05Z: " + message + "\n"},
		"not held":    {map[string]string{"master0": standby}, cli.Unhealthy, "=False (VIPNotHeld) since 2026-01-02T03:04:05Z: no host holds 192.0.2.5: check keepalived on master0; 1 host has reported\n"},
		"one is down": {map[string]string{"master0": serving, "master1": ""}, cli.Unknown, ": master1: no JSON document; 1 of 2 hosts have reported\n"},
		"a text":      {map[string]string{"master0": serving, "master1": `{"kind": "x"}`}, cli.Unknown, `: master1: not a Status, but of the kind "x"`},
	} {
		installOC(t, tt.outputs)
		got := runLine(t, "", "condition", "-o", "text")
		if got.code != tt.code || got.err != "" || !strings.HasPrefix(got.out, "HTTP01ChallengeProxyReady=") || !strings.Contains(got.out, tt.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestConditionHTTP01Proxy: the status of an HTTP01Proxy. The exit code is that of Ready.
func TestConditionHTTP01Proxy(t *testing.T) {
	failing := strings.Replace(statusOf("PortInUse", "Standby"), "it is \\u001b[31mPortInUse", "port 8888 is in use", 1)
	installOC(t, map[string]string{"master0": statusOf("Serving", "Held"), "master1": failing})
	const ready = "192.0.2.5 is held and served by master0; master1 is not ready (PortInUse): port 8888 is in use; 2 hosts have reported"
	const degraded = "master1 is not ready (PortInUse): port 8888 is in use; 2 hosts have reported"
	want := "apiVersion: operator.openshift.io/v1alpha1\nkind: HTTP01Proxy\nmetadata:\n  name: cluster\nstatus:\n  conditions:\n" +
		"  - type: Ready\n    status: 'True'\n    reason: Serving\n    message: '" + ready + "'\n    lastTransitionTime: '2026-01-02T03:04:05Z'\n" +
		"  - type: Degraded\n    status: 'True'\n    reason: PortInUse\n    message: '" + degraded + "'\n    lastTransitionTime: '2026-01-02T03:04:05Z'\n"
	got := runLine(t, "", "condition", "--kind", "HTTP01Proxy", "-o", "yaml")
	if diff := cmp.Diff(want, got.out); got.code != cli.OK || got.err != "" || diff != "" {
		t.Errorf("%+v (-want +got):\n%s", got, diff)
	}
	text := runLine(t, "", "condition", "--kind", "HTTP01Proxy", "-o", "text")
	if want := (outcome{cli.OK, "Ready=True (Serving) since 2026-01-02T03:04:05Z: " + ready + "\nDegraded=True (PortInUse) since 2026-01-02T03:04:05Z: " + degraded + "\n", ""}); text != want {
		t.Errorf("%+v", text)
	}
	installOC(t, map[string]string{"master1": failing})
	if none := runLine(t, "", "condition", "--kind", "HTTP01Proxy"); none.code != cli.Unhealthy {
		t.Errorf("%+v", none)
	}
}

// failingWriter behaves like a full disk.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// TestOutputFails: a condition that cannot be printed has a separate exit code.
func TestOutputFails(t *testing.T) {
	installOC(t, map[string]string{"master0": statusOf("Serving", "Held")})
	var reported strings.Builder
	code := cli.Execute(t.Context(), rootCommand(), []string{"condition"}, cli.Streams{Out: failingWriter{}, Err: &reported})
	if want := "oc http01 condition: cannot print the condition: short write\n"; code != cli.Failure || reported.String() != want {
		t.Errorf("exit code %d: %s", code, &reported)
	}
}
