// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/test/judge"
	"github.com/http01-proxyd/http01-proxyd/test/mcd"
	"github.com/http01-proxyd/http01-proxyd/test/oc"
)

const (
	osImageSection = "In the OS image"
	inOSImage      = "/usr/bin/http01-proxyd"
)

// Both ways to an image with the binary in it. Each rollout reboots, but for one
// of the configuration alone. No image is booted here, which takes ostree: the
// host gets what is in the one that podman has built.
func TestInTheOSImage(t *testing.T) {
	for name, tt := range map[string]struct {
		base  string   // what the image is built upon
		names []string // the documented objects beside rendered/ that bring it
		late  bool     // the hosts get it after rendered/
	}{
		"on the cluster":  {"configs", nil, true},
		"off the cluster": {"registry.example.com/rhel-coreos", []string{"MachineConfig"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := use(t)
			j := must1(judge.Open(t.Context()))(t)
			document := documented(t, "MachineOSConfig")
			must(t, j.Object([]byte(document)))
			var base [][]byte
			for _, kind := range tt.names {
				text := documented(t, kind)
				must(t, j.Object([]byte(text)))
				base = append(base, []byte(text))
			}
			daemon := &mcd.Daemon{Machine: s.Masters[0]}
			c := must1(oc.New(t.Context(), []byte(foreignPolicy), []oc.Node{{Name: s.Masters[0].Name, Daemon: daemon}}, base...))(t)
			t.Cleanup(func() { daemon.Update(context.Background(), mcd.Rendered{}) })
			w := newWay(t, s, map[string]oc.Handler{"oc": c.Run})
			w.rolledOut(c, len(base) > 0) // another image is another boot

			w.block(osImageSection, 0, 4)
			build := containerfile(t, document, tt.base, s.images[first])
			if !tt.late {
				w.osImage(build, tt.base)
			}
			w.block(osImageSection, 1, 4)
			w.rolledOut(c, true)
			w.reboot()
			if tt.late {
				w.waits()
				w.osImage(build, tt.base)
				w.reboot()
			}
			w.serves(inOSImage, s.sums[first], "in-the-os-image")
			w.explained(t, w.Host)

			w.write("my.yaml", "mode: CustomDeployment\ncustomDeployment: {internalPort: 9888}\n")
			must1(w.run(t.Context(), "make machineconfigs LAYERED=yes CONFIG=my.yaml OUT=rendered && oc apply -f rendered/"))(t)
			w.rolledOut(c, false)
			w.onPort(9888)
			w.serves(inOSImage, s.sums[first], "in-the-os-image-9888")

			w.block(osImageSection, 2, 4)
			w.rolledOut(c, true)
			w.on("rm", inOSImage) // the image without it
			w.reboot()
			w.block(osImageSection, 3, 4)
			w.asItWas()
		})
	}
}

// waits: without the binary the service is skipped, and has not failed.
func (w *way) waits() {
	w.t.Helper()
	got := must1(w.Properties(w.t.Context(), service, "ActiveState", "ConditionResult", "UnitFileState"))(w.t)
	want := map[string]string{"ActiveState": "inactive", "ConditionResult": "no", "UnitFileState": "enabled"}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("the service without its binary (-want +got):\n%s", diff)
	}
}

// onPort waits until the configuration's port is in the kernel.
func (w *way) onPort(port int) {
	w.t.Helper()
	must(w.t, eventually(w.t, fmt.Sprintf("port %d", port), func(ctx context.Context) error {
		out, err := w.Run(ctx, "nft", "list", "table", "inet", "http01-proxyd")
		if err == nil && !strings.Contains(out, fmt.Sprintf("dnat to :%d", port)) {
			err = errors.New(out)
		}
		return err
	}))
}

// rolledOut looks at what an update has come to on the node.
func (w *way) rolledOut(c *oc.Cluster, reboot bool) {
	w.t.Helper()
	rollouts := c.Rollouts()
	if len(rollouts) != 1 {
		w.t.Fatalf("the node got %d updates", len(rollouts))
	}
	r := rollouts[0]
	must(w.t, errors.Join(r.Report.Degraded, r.Drift))
	if r.Report.Rebooted != reboot {
		w.t.Fatalf("a reboot is asked for: %v\n%s", r.Report.Rebooted, r.Report)
	}
}

// fromImage is the line of a Containerfile that names our image.
var fromImage = regexp.MustCompile(`(?m)^FROM \S+@sha256:[0-9a-f]{64} AS http01-proxyd$`)

// containerfile is that of a MachineOSConfig, for images that there are.
func containerfile(t *testing.T, document, base, image string) string {
	t.Helper()
	var o struct {
		Spec struct {
			ContainerFile []struct{ Content string }
		}
	}
	must(t, yaml.Unmarshal([]byte(document), &o))
	if len(o.Spec.ContainerFile) != 1 {
		t.Fatalf("the MachineOSConfig has %d Containerfiles", len(o.Spec.ContainerFile))
	}
	text := o.Spec.ContainerFile[0].Content
	if !fromImage.MatchString(text) || !strings.Contains(text, "\nFROM configs AS final\n") {
		t.Fatalf("the Containerfile does not name the two images:\n%s", text)
	}
	text = fromImage.ReplaceAllLiteralString(text, "FROM "+image+" AS http01-proxyd")
	return strings.Replace(text, "FROM configs AS", "FROM "+base+" AS", 1)
}

// osImage builds the image upon a base of one file and puts onto the host what
// has come into it.
func (w *way) osImage(containerfile, base string) {
	w.t.Helper()
	const built = "localhost/os"
	w.on("sh", "-c", "tar --create --dereference --directory=/ etc/os-release | podman import --quiet - "+base)
	out, err := w.Input(w.t.Context(), containerfile, "podman", "build", "--layers=false",
		"--authfile=/var/lib/kubelet/config.json", "--tag="+built, "-")
	must(w.t, err)
	w.t.Log(out)
	id := w.on("podman", "create", "--pull=never", built, "none")
	w.on("podman", "cp", id+":/etc/os-release", "/tmp/os-release") // what the base has is still there
	w.on("podman", "cp", id+":"+inOSImage, inOSImage)
	w.on("podman", "rm", id)
	w.on("podman", "image", "prune", "--all", "--force")
	w.on("rm", "/tmp/os-release")
	if got := w.on("sha256sum", inOSImage); got != w.sums[first]+"  "+inOSImage {
		w.t.Errorf("in the image that was built is %s, want %s", got, w.sums[first])
	}
	if got := w.on("stat", "--format=%A %U:%G", inOSImage); got != "-rwxr-xr-x root:root" {
		w.t.Errorf("in the image that was built it is %s", got)
	}
}
