// SPDX-License-Identifier: Apache-2.0

package socketowner

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseCgroupPath(t *testing.T) {
	t.Parallel()
	const pod = "8f1f7c1e-33a4-4b0a-9d1c-0d9a3a0b7f11"
	slice := "kubepods-burstable-pod" + strings.ReplaceAll(pod, "-", "_") + ".slice"
	id := strings.Repeat("0123456789abcdef", 4)
	type answer struct{ Text, Command string }
	for name, tt := range map[string]struct {
		path string
		want answer
	}{
		"unit":           {"/system.slice/otelcol.service", answer{"unit otelcol.service", ""}},
		"template":       {"/system.slice/system-otelcol.slice/otelcol@a.service", answer{"unit otelcol@a.service", ""}},
		"socket unit":    {"/system.slice/web.socket", answer{"unit web.socket", ""}},
		"below a unit":   {"/system.slice/otelcol.service/main/x", answer{"unit otelcol.service", ""}},
		"escaped":        {"/system.slice/_cgroup.service", answer{"unit cgroup.service", ""}},
		"systemd itself": {"/init.scope", answer{"unit init.scope", "systemctl list-sockets"}},
		"user's unit": {
			"/user.slice/user-1000.slice/user@1000.service/app.slice/otelcol.service",
			answer{"unit otelcol.service in user@1000.service", ""},
		},
		"CRI-O": {
			"/kubepods.slice/kubepods-burstable.slice/" + slice + "/crio-" + id + ".scope",
			answer{"unit crio-" + id + ".scope, pod " + pod, "crictl ps --id 0123456789abc"},
		},
		"CRI-O, a cgroup of the container's own": {
			"/kubepods.slice/kubepods-burstable.slice/" + slice + "/crio-" + id + ".scope/container",
			answer{"unit crio-" + id + ".scope, pod " + pod, "crictl ps --id 0123456789abc"},
		},
		"CRI-O, guaranteed static pod": {
			"/kubepods.slice/kubepods-pod" + id[:32] + ".slice/crio-" + id + ".scope",
			answer{"unit crio-" + id + ".scope, pod " + id[:32], "crictl ps --id 0123456789abc"},
		},
		"CRI-O's monitor": {
			"/system.slice/crio-conmon-" + id + ".scope",
			answer{"unit crio-conmon-" + id + ".scope", "crictl ps --id 0123456789abc"},
		},
		"containerd": {
			"/kubepods.slice/" + slice + "/cri-containerd-" + id + ".scope",
			answer{"unit cri-containerd-" + id + ".scope, pod " + pod, "crictl ps --id 0123456789abc"},
		},
		"kubelet without systemd's names": {
			"/kubepods/burstable/pod" + pod + "/" + id,
			answer{"cgroup /kubepods/burstable/pod" + pod + "/" + id + ", pod " + pod, "crictl ps --id 0123456789abc"},
		},
		"a pod of something else": {"/system.slice/pods-pod1.slice/a.scope", answer{"unit a.scope", ""}},
		"no unit":                 {"/jobs/17", answer{"cgroup /jobs/17", ""}},
		"slice":                   {"/user.slice", answer{"cgroup /user.slice", ""}},
		"not printable":           {"/system.slice/a\x1b[2J\n\xff.service", answer{"unit a?[2J??.service", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := parseCgroupPath(tt.path)
			if diff := cmp.Diff(tt.want, answer{p.String(), p.inspectCommand()}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
