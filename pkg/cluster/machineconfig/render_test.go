// SPDX-License-Identifier: Apache-2.0

package machineconfig_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	ignition "github.com/coreos/ignition/v2/config/v3_4"
	"github.com/coreos/ignition/v2/config/v3_4/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vincent-petithory/dataurl"
	"go.yaml.in/yaml/v4"

	sources "github.com/http01-proxyd/http01-proxyd"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

const image = "registry.example.com:5000/http01-proxyd@sha256:" + sum

// catalog is a file that explains the journal's entries, and its mode.
const catalog = "/usr/local/lib/systemd/catalog/http01-proxyd.catalog -rw-r--r--"

// rendered is a MachineConfig read back.
type rendered struct {
	Name, Role string
	Ignition   types.Config
}

func read(t *testing.T, o machineconfig.Object) rendered {
	t.Helper()
	var object struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   struct {
			Name   string
			Labels map[string]string
		}
		Spec map[string]any
	}
	must(t, yaml.Load(o.Text, &object))
	if object.APIVersion != "machineconfiguration.openshift.io/v1" || object.Kind != "MachineConfig" || len(object.Spec) != 1 {
		t.Errorf("a %s %s with the spec %v", object.APIVersion, object.Kind, object.Spec)
	}
	text := must1(json.Marshal(object.Spec["config"]))(t)
	c, remarks, err := ignition.Parse(text)
	if err != nil || len(remarks.Entries) > 0 {
		t.Fatal(err, remarks)
	}
	return rendered{object.Metadata.Name, object.Metadata.Labels["machineconfiguration.openshift.io/role"], c}
}

// onHost gives what a host gets: files by path with their mode, units and
// drop-ins by their path.
func onHost(t *testing.T, c types.Config) map[string]string {
	t.Helper()
	got := make(map[string]string)
	for _, f := range c.Storage.Files {
		url, err := dataurl.DecodeString(*f.Contents.Source)
		must(t, err)
		text := url.Data
		if f.Contents.Compression != nil && *f.Contents.Compression == "gzip" {
			r, err := gzip.NewReader(bytes.NewReader(text))
			must(t, err)
			if text, err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
		}
		got[f.Path+" "+fs.FileMode(*f.Mode).String()] = string(text)
	}
	for _, u := range c.Systemd.Units {
		name := u.Name
		if u.Enabled != nil && *u.Enabled {
			name += " enabled"
		}
		got[name] = *u.Contents
		for _, d := range u.Dropins {
			got[u.Name+".d/"+d.Name] = *d.Contents
		}
	}
	return got
}

func source(t *testing.T, name string) string {
	t.Helper()
	return string(must1(os.ReadFile(filepath.Join("../../..", name)))(t))
}

func render(t *testing.T, r machineconfig.Request) []machineconfig.Object {
	t.Helper()
	return must1(machineconfig.Render(sources.Files, r))(t)
}

// refusal is what is said when nothing is rendered.
func refusal(t *testing.T, from fs.FS, r machineconfig.Request) string {
	t.Helper()
	objects, err := machineconfig.Render(from, r)
	if err == nil {
		t.Fatalf("rendered as %d objects", len(objects))
	}
	return err.Error()
}

// TestDeliveredFilesAndUnits: the files and units of the sources, byte for byte.
func TestDeliveredFilesAndUnits(t *testing.T) {
	t.Parallel()
	const configuration = "mode: CustomDeployment\ncustomDeployment: {internalPort: 9888}\n"
	dropin := "# SPDX-License-Identifier: Apache-2.0\n# Which image holds the binary; from http01-machineconfig.\n[Service]\nEnvironment=HTTP01_PROXYD_IMAGE=" + image + "\n"
	units := func(dropin string) map[string]string {
		return map[string]string{
			"/usr/local/bin/http01-proxyd-install -rwxr-xr-x": source(t, "systemd/http01-proxyd-install"),
			catalog:                                         source(t, "systemd/http01-proxyd.catalog"),
			"http01-proxyd.service enabled":                 source(t, "systemd/http01-proxyd.service"),
			"http01-proxyd-table.service":                   source(t, "systemd/http01-proxyd-table.service"),
			"http01-proxyd-install.service":                 source(t, "systemd/http01-proxyd-install.service"),
			"http01-proxyd-install.service.d/10-image.conf": dropin,
			"http01-proxyd-install.timer enabled":           source(t, "systemd/http01-proxyd-install.timer"),
		}
	}
	for name, tt := range map[string]struct {
		request machineconfig.Request
		names   []string
		service map[string]string
		config  string
	}{
		"the least": {
			machineconfig.Request{Image: image, Pool: "master"},
			[]string{"98-master-http01-proxyd", "98-master-http01-proxyd-config"},
			units(dropin), source(t, "butane/config.yaml"),
		},
		"everything": {
			machineconfig.Request{
				Image: image, Pool: "infra-2",
				Site: machineconfig.Site{Config: &machineconfig.Input{Name: "my.yaml", Text: []byte(configuration)}},
				Sums: &machineconfig.Input{Name: "SHA256SUMS", Text: []byte(sum + "  http01-proxyd-linux-s390x\n" + sum + "  http01-proxyd-linux-amd64\n")},
			},
			[]string{"98-infra-2-http01-proxyd", "98-infra-2-http01-proxyd-config"},
			units(dropin + "Environment=HTTP01_PROXYD_SHA256_X86_64=" + sum + "\nEnvironment=HTTP01_PROXYD_SHA256_S390X=" + sum + "\n"), configuration,
		},
		"layered": {
			machineconfig.Request{Layered: true, Pool: "master"},
			[]string{"98-master-http01-proxyd", "98-master-http01-proxyd-config"},
			map[string]string{
				catalog:                         source(t, "systemd/http01-proxyd.catalog"),
				"http01-proxyd.service enabled": source(t, "systemd/http01-proxyd.service"),
				"http01-proxyd.service.d/10-layered.conf": "[Unit]\nConditionFileIsExecutable=\nConditionFileIsExecutable=/usr/bin/http01-proxyd\n\n" +
					"[Service]\nExecStart=\nExecStart=/usr/bin/http01-proxyd run\n",
				"http01-proxyd-table.service":                   source(t, "systemd/http01-proxyd-table.service"),
				"http01-proxyd-table.service.d/10-layered.conf": "[Service]\nExecStop=\nExecStop=-/usr/bin/http01-proxyd cleanup\n",
				"http01-proxyd-catalog.service enabled":         source(t, "systemd/http01-proxyd-catalog.service"),
			},
			source(t, "butane/config.yaml"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := render(t, tt.request)
			want := []map[string]string{tt.service, {"/etc/http01-proxyd/config.yaml -rw-r--r--": tt.config}}
			for i, o := range objects {
				got := read(t, o)
				if got.Name != tt.names[i] || o.File != tt.names[i]+".yaml" || got.Role != tt.request.Pool {
					t.Errorf("object %d is %s for %s in %s", i, got.Name, got.Role, o.File)
				}
				if diff := cmp.Diff(want[i], onHost(t, got.Ignition)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", o.File, diff)
				}
			}
			if len(objects) != 2 {
				t.Errorf("%d objects", len(objects))
			}
		})
	}
}

// TestReproducible: a rendering depends on nothing but request and sources.
func TestReproducible(t *testing.T) {
	t.Parallel()
	r := machineconfig.Request{Image: image, Pool: "master"}
	if diff := cmp.Diff(render(t, r), render(t, r)); diff != "" {
		t.Errorf("(-first +second):\n%s", diff)
	}
}

// TestSize: both objects together stay far below what an API request takes,
// with every checksum, as files and as JSON.
func TestSize(t *testing.T) {
	t.Parallel()
	var sums bytes.Buffer
	for _, platform := range []string{"amd64", "arm64", "ppc64le", "s390x"} {
		sums.WriteString(sum + "  http01-proxyd-linux-" + platform + "\n")
	}
	files, objects := 0, 0
	for _, o := range render(t, machineconfig.Request{Image: image, Pool: "master", Sums: &machineconfig.Input{Name: "S", Text: sums.Bytes()}}) {
		files += len(o.Text)
		objects += o.Size
		var object any
		must(t, yaml.Load(o.Text, &object))
		text := must1(json.Marshal(object))(t)
		if len(text) != o.Size {
			t.Errorf("%s says %d bytes and has %d", o.File, o.Size, len(text))
		}
	}
	t.Logf("%d bytes of YAML, %d of JSON", files, objects)
	if most := 24 << 10; files > most || objects > most {
		t.Errorf("%d bytes of YAML, %d of JSON: more than %d", files, objects, most)
	}
}

// TestImageIsPlainText: a mirror's or an auditor's tool finds it.
func TestImageIsPlainText(t *testing.T) {
	t.Parallel()
	o := render(t, machineconfig.Request{Image: image, Pool: "master"})[0]
	if line := "            Environment=HTTP01_PROXYD_IMAGE=" + image + "\n"; !strings.Contains(string(o.Text), line) {
		t.Errorf("no line %q in\n%s", line, o.Text)
	}
}

// TestExampleIsMarked: the mark follows from the image, in every file.
func TestExampleIsMarked(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]bool{machineconfig.ExampleImage: true, image: false} {
		for _, o := range render(t, machineconfig.Request{Image: image, Pool: "master"}) {
			if got := strings.Contains(string(o.Text), "# EXAMPLE"); got != want {
				t.Errorf("%s for %s is marked: %v", o.File, image, got)
			}
		}
	}
}

// TestSourcesTranslateUnmodified: with a checkout as Butane's files directory the
// sources give what the renderer gives for the example.
func TestSourcesTranslateUnmodified(t *testing.T) {
	t.Parallel()
	for _, o := range render(t, machineconfig.Request{Image: machineconfig.ExampleImage, Pool: "master"}) {
		for path, text := range onHost(t, read(t, o).Ignition) {
			if strings.HasSuffix(path, "10-image.conf") && text != source(t, "butane/10-image.conf") {
				t.Errorf("butane/10-image.conf should be\n%s", text)
			}
		}
	}
}

func TestDefaultConfigurationIsTheDefault(t *testing.T) {
	t.Parallel()
	got := must1(config.Parse("butane/config.yaml", []byte(source(t, "butane/config.yaml"))))(t)
	if diff := cmp.Diff(config.Default(), got, cmpopts.EquateComparable(netip.AddrPort{})); diff != "" {
		t.Errorf("(-default +file):\n%s", diff)
	}
}

// TestStageIsRemoved: the files directory, which may hold what is not for
// all eyes, goes with the rendering, a refused one too.
func TestStageIsRemoved(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	render(t, machineconfig.Request{Image: image, Pool: "master"})
	refusal(t, edited(t, "butane/service.bu", "mode: 0755", "mode: 04755"), machineconfig.Request{Image: image, Pool: "master"})
	entries := must1(os.ReadDir(dir))(t)
	if len(entries) > 0 {
		t.Errorf("left behind: %v", entries)
	}
}

// TestAllProblemsAtOnce: what is wrong with a request comes in one answer.
func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	said := refusal(t, sources.Files, machineconfig.Request{
		Image: "quay.io/a/b", Pool: "Master",
		Site: machineconfig.Site{Config: &machineconfig.Input{Name: "my.yaml", Text: []byte("mode: x\nport: 1\n")}},
		Sums: &machineconfig.Input{Name: "SUMS", Text: []byte("nothing\n")},
	})
	want := []string{
		`image "quay.io/a/b": neither digest nor tag: give registry.example.com/name@sha256:<64 lower-case hexadecimal digits>`,
		`pool "Master": not a name that a MachineConfigPool can have: give one that "oc get machineconfigpool" shows: at most 63 lower-case letters, digits and "-"`,
		`my.yaml:1:7: mode is "x": write DefaultDeployment, CustomDeployment, or "" to disable the proxy`,
		`my.yaml:2:1: unknown key "port" in the configuration: use one of mode, customDeployment, vips, upstream, egressProxy, hosts, limits, metrics, microshift`,
		`SUMS:1:1: not a line of sha256sum: write 64 hexadecimal digits, two spaces and the file's name`,
	}
	if diff := cmp.Diff(want, strings.Split(said, "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// edited gives the sources with one text in one file replaced.
func edited(t *testing.T, name, old, replacement string) fstest.MapFS {
	t.Helper()
	all := make(fstest.MapFS)
	err := fs.WalkDir(sources.Files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(sources.Files, path)
		all[path] = &fstest.MapFile{Data: text, Mode: 0o444}
		return err
	})
	must(t, err)
	text := string(all[name].Data)
	if strings.Count(text, old) == 0 {
		t.Fatalf("%q does not stand in %s", old, name)
	}
	all[name].Data = []byte(strings.Replace(text, old, replacement, 1))
	return all
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must1 gives what a call returned, unless that was an error.
func must1[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return value
	}
}
