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
		"type": "HTTP01ChallengeProxyReady", "status": "True", "reason": "Serving", "message": message,
		"lastTransitionTime": "2026-01-02T03:04:05Z",
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
		"ready": {
			map[string]string{"master0": serving, "master1": standby},
			cli.OK,
			"=True (Serving) since 2026-01-02T03:04:05Z: " + message + "\n",
		},
		"not held": {
			map[string]string{"master0": standby},
			cli.Unhealthy,
			"=False (VIPNotHeld) since 2026-01-02T03:04:05Z: no host holds 192.0.2.5; 1 host has reported\n",
		},
		"one is down": {
			map[string]string{"master0": serving, "master1": ""},
			cli.Unknown,
			": master1: no JSON document; 1 of 2 hosts have reported\n",
		},
		"a text": {
			map[string]string{"master0": serving, "master1": `{"kind": "x"}`},
			cli.Unknown,
			`: master1: not a Status, but of the kind "x"`,
		},
	} {
		installOC(t, tt.outputs)
		got := runLine(t, "", "condition", "-o", "text")
		if got.code != tt.code || got.err != "" || !strings.HasPrefix(got.out, "HTTP01ChallengeProxyReady=") ||
			!strings.Contains(got.out, tt.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// failingWriter behaves like a full disk.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// TestOutputFails: a condition that cannot be printed gives a separate exit code.
func TestOutputFails(t *testing.T) {
	installOC(t, map[string]string{"master0": statusOf("Serving", "Held")})
	var reported strings.Builder
	code := cli.Execute(t.Context(), rootCommand(), []string{"condition"}, cli.Streams{
		Out: failingWriter{},
		Err: &reported,
	})
	if want := "oc http01 condition: cannot print the condition: short write\n"; code != cli.Failure ||
		reported.String() != want {
		t.Errorf("exit code %d: %s", code, &reported)
	}
}
