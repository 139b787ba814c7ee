// SPDX-License-Identifier: Apache-2.0

package socketowner

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDescribePath(t *testing.T) {
	t.Parallel()
	const pod = "8f1f7c1e-33a4-4b0a-9d1c-0d9a3a0b7f11"
	slice := "kubepods-burstable-pod" + strings.ReplaceAll(pod, "-", "_") + ".slice"
	id := strings.Repeat("0123456789abcdef", 4)
	for name, tt := range map[string]struct {
		path string
		want string
	}{
		"unit":           {"/system.slice/otelcol.service", "unit otelcol.service"},
		"template":       {"/system.slice/system-otelcol.slice/otelcol@a.service", "unit otelcol@a.service"},
		"socket unit":    {"/system.slice/web.socket", "unit web.socket"},
		"below a unit":   {"/system.slice/otelcol.service/main/x", "unit otelcol.service"},
		"escaped":        {"/system.slice/_cgroup.service", "unit cgroup.service"},
		"systemd itself": {"/init.scope", "unit init.scope"},
		"user's unit": {
			"/user.slice/user-1000.slice/user@1000.service/app.slice/otelcol.service",
			"unit otelcol.service",
		},
		"CRI-O": {
			"/kubepods.slice/kubepods-burstable.slice/" + slice + "/crio-" + id + ".scope",
			"unit crio-" + id + ".scope, pod " + pod,
		},
		"CRI-O, a cgroup of the container's own": {
			"/kubepods.slice/kubepods-burstable.slice/" + slice + "/crio-" + id + ".scope/container",
			"unit crio-" + id + ".scope, pod " + pod,
		},
		"CRI-O, guaranteed static pod": {
			"/kubepods.slice/kubepods-pod" + id[:32] + ".slice/crio-" + id + ".scope",
			"unit crio-" + id + ".scope, pod " + id[:32],
		},
		"CRI-O's monitor": {
			"/system.slice/crio-conmon-" + id + ".scope",
			"unit crio-conmon-" + id + ".scope",
		},
		"containerd": {
			"/kubepods.slice/" + slice + "/cri-containerd-" + id + ".scope",
			"unit cri-containerd-" + id + ".scope, pod " + pod,
		},
		"kubelet without systemd's names": {
			"/kubepods/burstable/pod" + pod + "/" + id,
			"cgroup /kubepods/burstable/pod" + pod + "/" + id + ", pod " + pod,
		},
		"a pod of something else": {"/system.slice/pods-pod1.slice/a.scope", "unit a.scope"},
		"no unit":                 {"/jobs/17", "cgroup /jobs/17"},
		"slice":                   {"/user.slice", "cgroup /user.slice"},
		"not printable":           {"/system.slice/a\x1b[2J\n\xff.service", "unit a?[2J??.service"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, describePath(tt.path)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
