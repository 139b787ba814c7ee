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
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/test/support/mcd"
	"github.com/http01-proxyd/http01-proxyd/test/support/oc"
	"github.com/http01-proxyd/http01-proxyd/test/support/validator"
)

const (
	addToImage      = "Add the binary to the image"
	removeFromImage = "Remove the binary from the image"
	inOSImage       = "/usr/bin/http01-proxyd"
)

// TestOSImage tests both methods to put the binary into an OS image. Each rollout reboots,
// except one of the configuration alone. Booting an image needs ostree, so the host gets
// the files of the image that podman built.
func TestOSImage(t *testing.T) {
	for name, tt := range map[string]struct {
		base          string   // base of the image
		names         []string // documented objects beside rendered/
		afterRendered bool     // the image follows rendered/
	}{
		"on the cluster":  {"configs", nil, true},
		"off the cluster": {"registry.example.com/rhel-coreos", []string{"MachineConfig"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := useCluster(t)
			j := must1(validator.Load(t.Context()))(t)
			document := documentedYAML(t, "MachineOSConfig")
			must(t, j.Object([]byte(document)))
			var base [][]byte
			for _, kind := range tt.names {
				text := documentedYAML(t, kind)
				must(t, j.Object([]byte(text)))
				base = append(base, []byte(text))
			}
			daemon := &mcd.Daemon{Host: s.ControlPlane[0]}
			c := must1(oc.New(t.Context(), []byte(clusterPolicy), []oc.Node{{Name: s.ControlPlane[0].Name, Daemon: daemon}},
				base...))(t)
			t.Cleanup(func() { daemon.Update(context.Background(), mcd.Rendered{}) })
			debug := debugOn(s.ControlPlane[0])
			w := newInstallMethod(t, s, osImageGuide, map[string]oc.Handler{
				"oc": func(ctx context.Context, dir string, args ...string) (string, error) {
					if args[0] == "debug" {
						return debug(ctx, dir, args...)
					}
					return c.Run(ctx, dir, args...)
				},
			})
			w.expectRollout(c, len(base) > 0) // another image needs a reboot

			w.block(addToImage, 0, 3)
			build := containerfile(t, document, tt.base, s.images[first])
			if !tt.afterRendered {
				w.installOSImage(build, tt.base)
			}
			w.block(addToImage, 2, 3)
			w.expectRollout(c, true)
			w.reboot()
			if tt.afterRendered {
				w.expectSkipped()
				w.installOSImage(build, tt.base)
				w.reboot()
			}
			w.expectServing(inOSImage, s.sums[first], "in-the-os-image")
			w.expectJournalCatalog(t, w.Host)

			w.write("my.yaml", "mode: CustomDeployment\ncustomDeployment: {internalPort: 9888}\n")
			must1(w.run(t.Context(),
				"make machineconfigs LAYERED=yes CONFIG=my.yaml OUT=rendered && sh rendered/10-policy/apply.sh && oc apply "+
					"-f rendered/"))(t)
			w.expectRollout(c, false)
			w.awaitPort(9888)
			w.expectServing(inOSImage, s.sums[first], "in-the-os-image-9888")

			w.block(removeFromImage, 0, 2)
			w.expectRollout(c, true)
			w.runOnHost("rm", inOSImage) // the next image has no binary
			w.reboot()
			w.block(removeFromImage, 1, 2)
			w.expectUnchanged()
		})
	}
}

// TestBaseImage runs the documented commands that print the image of the pool's stream, in clusters with and
// without streams. oc prints fields of OpenShift's own types.
func TestBaseImage(t *testing.T) {
	guide := openDocument(t, osImageGuide, installMark)
	const nine, ten = "rhel-coreos", "rhel-coreos-10"
	for name, tt := range map[string]struct {
		ofPool, ofCluster string // streams
		noKind            bool
		want              string
	}{
		"a release without streams":      {noKind: true, want: nine},
		"the cluster's stream, RHEL 9":   {ofCluster: "rhel-9", want: nine},
		"the cluster's stream, RHEL 10":  {ofCluster: "rhel-10", want: ten},
		"the pool's stream, RHEL 10":     {ofPool: "rhel-10", ofCluster: "rhel-9", want: ten},
		"the pool's stream, RHEL 9":      {ofPool: "rhel-9", ofCluster: "rhel-10", want: nine},
		"a stream that nobody knows yet": {ofCluster: "rhel-11"},
	} {
		t.Run(name, func(t *testing.T) {
			var pool mcfgv1.MachineConfigPool
			var stream mcfgv1.OSImageStream
			pool.Spec.OSImageStream.Name, stream.Status.DefaultStream = tt.ofPool, tt.ofCluster
			printed := func(o any, format string) (string, error) {
				fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
				must(t, err)
				path := jsonpath.New("get").AllowMissingKeys(true)
				must(t, path.Parse(strings.TrimPrefix(format, "jsonpath=")))
				var out strings.Builder
				err = path.Execute(&out, fields)
				return out.String(), err
			}
			s := newShell(t, map[string]oc.Handler{"oc": func(_ context.Context, _ string, args ...string) (string, error) {
				switch format := args[len(args)-1]; strings.Join(args[:len(args)-1], " ") {
				case "get mcp master -o":
					return printed(&pool, format)
				case "get osimagestream cluster -o":
					if !tt.noKind {
						return printed(&stream, format)
					}
				case "get crd osimagestreams.machineconfiguration.openshift.io --ignore-not-found -o":
					if tt.noKind {
						return "", nil
					}
					return "customresourcedefinition.apiextensions.k8s.io/osimagestreams", nil
				case "adm release info":
					return format, nil
				}
				return "", fmt.Errorf("oc %q", args)
			}})
			got, err := s.run(t.Context(), guide.block(t, addToImage, 1, 3))
			if want := strings.TrimSuffix("--image-for="+tt.want, "--image-for="); err == nil && strings.TrimSpace(got) != want ||
				(err != nil) != (tt.want == "") {
				t.Errorf("%q, %v, want %q", got, err, want)
			}
		})
	}
}

// expectSkipped expects that the service without its binary is skipped and not failed.
func (w *installMethod) expectSkipped() {
	w.t.Helper()
	got := must1(w.Properties(w.t.Context(), service, "ActiveState", "ConditionResult", "UnitFileState"))(w.t)
	want := map[string]string{"ActiveState": "inactive", "ConditionResult": "no", "UnitFileState": "enabled"}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("the service without its binary (-want +got):\n%s", diff)
	}
}

// awaitPort waits until the kernel's table has the port of the configuration.
func (w *installMethod) awaitPort(port int) {
	w.t.Helper()
	must(w.t, eventually(w.t, fmt.Sprintf("port %d", port), func(ctx context.Context) error {
		out, err := w.Run(ctx, "nft", "list", "table", "inet", "http01-proxyd")
		if err == nil && !strings.Contains(out, fmt.Sprintf("dnat to :%d", port)) {
			err = errors.New(out)
		}
		return err
	}))
}

// expectRollout checks the result of an update on the node.
func (w *installMethod) expectRollout(c *oc.Cluster, reboot bool) {
	w.t.Helper()
	rollouts := c.Rollouts()
	if len(rollouts) != 1 {
		w.t.Fatalf("%d updates of the node, want 1", len(rollouts))
	}
	r := rollouts[0]
	must(w.t, r.Degraded)
	if r.Rebooted != reboot {
		w.t.Fatalf("reboot requested: %v, actions %v", r.Rebooted, r.Actions)
	}
}

// fromImage matches the line of a Containerfile with our image.
var fromImage = regexp.MustCompile(`(?m)^FROM \S+@sha256:[0-9a-f]{64} AS http01-proxyd$`)

// containerfile returns the Containerfile of a MachineOSConfig with the images of the test.
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

// installOSImage builds the image on a base of one file and copies the result onto the
// host.
func (w *installMethod) installOSImage(containerfile, base string) {
	w.t.Helper()
	const built = "localhost/os"
	w.runOnHost("sh", "-c", "tar --create --dereference --directory=/ etc/os-release | podman import --quiet - "+base)
	out, err := w.Input(w.t.Context(), containerfile, "podman", "build", "--layers=false",
		"--authfile=/var/lib/kubelet/config.json", "--tag="+built, "-")
	must(w.t, err)
	w.t.Log(out)
	id := w.runOnHost("podman", "create", "--pull=never", built, "none")
	w.runOnHost("podman", "cp", id+":/etc/os-release", "/tmp/os-release") // the files of the base remain
	w.runOnHost("podman", "cp", id+":"+inOSImage, inOSImage)
	w.runOnHost("podman", "rm", id)
	w.runOnHost("podman", "image", "prune", "--all", "--force")
	w.runOnHost("rm", "/tmp/os-release")
	if got := w.runOnHost("sha256sum", inOSImage); got != w.sums[first]+"  "+inOSImage {
		w.t.Errorf("checksum in the built image: %s, want %s", got, w.sums[first])
	}
	if got := w.runOnHost("stat", "--format=%A %U:%G", inOSImage); got != "-rwxr-xr-x root:root" {
		w.t.Errorf("mode in the built image: %s", got)
	}
}
