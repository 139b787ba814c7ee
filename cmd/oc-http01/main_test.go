// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sigsyaml "sigs.k8s.io/yaml"

	sources "github.com/http01-proxyd/http01-proxyd"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/disruption"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
)

const image = "registry.example.com/http01-proxyd@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// outcome is the result of one command line.
type outcome struct {
	code     int
	out, err string
}

func runLine(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	var out, err strings.Builder
	code := cli.Execute(t.Context(), rootCommand(), args, cli.Streams{In: strings.NewReader(stdin), Out: &out, Err: &err})
	return outcome{code, out.String(), err.String()}
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args     []string
		code     int
		out, err string // required content of each stream; "" requires it empty
	}{
		"nothing":           {nil, cli.Usage, "", "Exit codes:"},
		"help":              {[]string{"--help"}, cli.OK, "Exit codes:", ""},
		"help of a command": {[]string{"render", "--help"}, cli.OK, "--image REF", ""},
		"help, command":     {[]string{"help", "render"}, cli.OK, "Examples:", ""},
		"explain":           {[]string{"explain", "service-not-running"}, cli.OK, "oc debug node/{node} -- chroot /host systemctl", ""},
		"explain preflight": {[]string{"explain", "policy-not-observed"}, cli.OK, "\n  sh {policy}/apply.sh", ""},
		"version":           {[]string{"version"}, cli.OK, "oc-http01 ", ""},
		"version flag":      {[]string{"--version"}, cli.OK, "oc-http01 ", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runLine(t, "", tt.args...)
			if got.code != tt.code {
				t.Errorf("exit code %d, want %d", got.code, tt.code)
			}
			for stream, s := range map[string]struct{ got, want string }{
				"stdout": {got.out, tt.out},
				"stderr": {got.err, tt.err},
			} {
				if (s.want == "") != (s.got == "") || !strings.Contains(s.got, s.want) {
					t.Errorf("%s is %q, want it to contain %q", stream, s.got, s.want)
				}
			}
		})
	}
}

// TestMessages runs the script in testdata/messages.txt: command lines that are
// refused, with the whole message and the exit code.
func TestMessages(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("testdata/messages.txt")
	must(t, err)
	ran := 0
	for _, block := range regexp.MustCompile(`\n{2,}`).Split(strings.TrimSpace(string(script)), -1) {
		if strings.HasPrefix(block, "#") {
			continue
		}
		ran++
		line, want, _ := strings.Cut(block, "\n")
		t.Run(strings.ReplaceAll(line, "/", "|"), func(t *testing.T) {
			t.Parallel()
			args := strings.Fields(strings.TrimPrefix(line, "$ "))
			out := filepath.Join(t.TempDir(), "out")
			if args[0] == "render" {
				args = slices.Insert(args, 1, "--output-dir", out)
			}
			got := runLine(t, "", args...)
			if diff := cmp.Diff(want, got.err+"exit "+strconv.Itoa(got.code)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.out != "" {
				t.Errorf("on standard output: %s", got.out)
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("something was written")
			}
		})
	}
	if ran < 25 {
		t.Errorf("the script has %d command lines only", ran)
	}
}

// TestHelpOfEveryCommand: help is available for every command, and the lines of its text are short.
func TestHelpOfEveryCommand(t *testing.T) {
	t.Parallel()
	for _, c := range rootCommand().Commands() {
		got := runLine(t, "", c.Name(), "--help")
		if got.code != cli.OK || got.err != "" {
			t.Errorf("%s --help: %+v", c.Name(), got)
		}
		for line := range strings.SplitSeq(got.out, "\n") {
			if len(line) > 120 && !strings.HasPrefix(strings.TrimSpace(line), "-") { // cobra does not wrap flags
				t.Errorf("%s --help: a line of %d characters: %s", c.Name(), len(line), line)
			}
		}
	}
}

// tree reads all files below a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		got[name] = string(text)
		return err
	})
	must(t, err)
	return got
}

// TestCommittedFilesAreCurrent: rendering again gives the committed files, byte for
// byte, and no other file exists.
func TestCommittedFilesAreCurrent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if got := runLine(t, "", "render", "--image", machineconfig.ExampleImage, "--output-dir", dir); got.code != cli.OK {
		t.Fatalf("%+v", got)
	}
	committed := tree(t, "../../machineconfigs")
	maps.DeleteFunc(committed, func(name, _ string) bool {
		return name == "README.md" || strings.HasPrefix(name, "monitoring/") || // written by hand
			strings.HasPrefix(name, "crd/") // made of the API's types, which test/suites/apis holds
	})
	for name, text := range tree(t, dir) {
		if committed[name] != text {
			t.Errorf("machineconfigs/%s is not what would be rendered: run make machineconfigs", name)
		}
		delete(committed, name)
	}
	for name := range committed {
		t.Errorf("machineconfigs/%s is rendered from nothing: delete it", name)
	}
}

// TestEveryChangeIsCovered: every delivered file and unit has an entry in the policy,
// or its change would reboot hosts. The policy has no other entry.
func TestEveryChangeIsCovered(t *testing.T) {
	t.Parallel()
	objects := must1(machineconfig.Render(sources.Files, machineconfig.Request{Image: image, Pool: "master"}))(t)
	policy := disruption.InstallerPolicy()
	var paths, units []string
	for _, o := range objects {
		var m struct {
			Spec struct {
				Config struct {
					Storage struct{ Files []struct{ Path string } }
					Systemd struct{ Units []struct{ Name string } }
				}
			}
		}
		must(t, sigsyaml.Unmarshal(o.Text, &m))
		for _, f := range m.Spec.Config.Storage.Files {
			paths = append(paths, f.Path)
		}
		for _, u := range m.Spec.Config.Systemd.Units {
			units = append(units, u.Name)
		}
	}
	if missing := policy.Uncovered(slices.Concat(paths, units)); len(missing) > 0 {
		t.Errorf("a change of %q reboots the hosts", missing)
	}
	if len(policy.Units) != len(units) || len(policy.Files) != len(paths) {
		t.Errorf("the policy has %v, delivered are %q and %q", policy, paths, units)
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out")
	got := runLine(t, "", "render", "--image", image, "--pool", "infra", "--output-dir", dir, "-o", "json")
	if got.code != cli.OK || got.err != "" {
		t.Fatalf("%+v", got)
	}
	var r renderedFiles
	must(t, json.Unmarshal([]byte(got.out), &r))
	names, total := make([]string, 0, len(r.Files)), 0
	for _, f := range r.Files {
		names = append(names, f.Path)
		if f.Percent != nil {
			total += f.Bytes
		}
	}
	want := []string{
		dir + "/10-policy/policy.yaml", dir + "/10-policy/apply.sh", dir + "/98-infra-http01-proxyd.yaml",
		dir + "/98-infra-http01-proxyd-config.yaml",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if r.TotalBytes != total || r.LimitBytes != 1572864 || r.TotalPercent != 100*float64(total)/1572864 || r.Example {
		t.Errorf("%+v", r)
	}

	text := runLine(t, "", "render", "--image", image, "--pool", "infra", "--output-dir", dir)
	for _, want := range []string{
		"\nThe commands that apply these files:\n  sh " + dir + "/10-policy/apply.sh rollout\n  oc http01 status\n",
		dir + "/98-infra-http01-proxyd.yaml",
		strconv.Itoa(total) + " bytes  " + machineconfig.LimitShare(total) +
			" of the machine-config-operator's limit of 1572864 for a pool",
	} {
		if !strings.Contains(text.out, want) {
			t.Errorf("no %q in\n%s", want, text.out)
		}
	}
}

// TestShow prints the files of the hosts, and writes none.
func TestShow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "my.yaml")
	must(t, os.WriteFile(config, []byte("mode: \"\"\n"), 0o600))
	got := runLine(t, "", "render", "--image", image, "--config", config, "--show")
	if got.code != cli.OK || got.err != "" {
		t.Fatalf("%+v", got)
	}
	var files []string
	for _, found := range regexp.MustCompile(`(?m)^==> (.*) <==$`).FindAllStringSubmatch(got.out, -1) {
		files = append(files, found[1])
	}
	want := []string{
		"/usr/local/bin/http01-proxyd-install (mode 0755)",
		"/usr/local/lib/systemd/catalog/http01-proxyd.catalog (mode 0644)",
		"/etc/sos/extras.d/http01-proxyd (mode 0644)",
		"/etc/systemd/system/http01-proxyd.service (mode 0644)",
		"/etc/systemd/system/http01-proxyd-table.service (mode 0644)",
		"/etc/systemd/system/http01-proxyd-install.service (mode 0644)",
		"/etc/systemd/system/http01-proxyd-install.service.d/10-image.conf (mode 0644)",
		"/etc/systemd/system/http01-proxyd-install.timer (mode 0644)",
		"/etc/http01-proxyd/config.yaml (mode 0644)",
	}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	script := must1(os.ReadFile("../../systemd/http01-proxyd-install"))(t)
	if !strings.HasPrefix(got.out, "==> "+want[0]+" <==\n"+string(script)+"\n==> ") ||
		!strings.HasSuffix(got.out, " <==\nmode: \"\"\n\n") {
		t.Errorf("the contents differ:\n%s", got.out)
	}
	if entries := must1(os.ReadDir(dir))(t); len(entries) != 1 {
		t.Errorf("files were written: %v", entries)
	}
	if got := runLine(t, "", "render", "--image", image, "--show", "--output-dir", dir); got.code != cli.Usage {
		t.Errorf("a folder is accepted: %+v", got)
	}
}

// TestPrintToStdout: the stream contains only the MachineConfigs. The policy must be
// applied first, separately.
func TestPrintToStdout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	written := runLine(t, "", "render", "--image", image, "--output-dir", dir)
	printed := runLine(t, "", "render", "--image", image, "--output-dir", "-")
	if written.code != cli.OK || printed.code != cli.OK {
		t.Fatalf("%+v %+v", written, printed)
	}
	files := tree(t, dir)
	want := files["98-master-http01-proxyd.yaml"] + "---\n" + files["98-master-http01-proxyd-config.yaml"]
	if diff := cmp.Diff(want, printed.out); diff != "" {
		t.Errorf("(-files +stream):\n%s", diff)
	}
	if !strings.Contains(printed.err, "all MachineConfigs") {
		t.Errorf("the report: %s", printed.err)
	}
}

// TestPolicyIsFirst: the paths of the files are in the order of application. Rendered
// files name no folder, which may be another one, and no file removes the policy.
func TestPolicyIsFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if got := runLine(t, "", "render", "--image", image, "--output-dir", dir); got.code != cli.OK {
		t.Fatalf("%+v", got)
	}
	files := tree(t, dir)
	want := []string{
		"10-policy/apply.sh", "10-policy/policy.yaml", "98-master-http01-proxyd-config.yaml",
		"98-master-http01-proxyd.yaml",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(files))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, text := range files {
		if strings.Contains(text, "machineconfigs/") {
			t.Errorf("%s speaks of a folder that it may not be in:\n%s", name, text)
		}
		if strings.HasSuffix(name, ".yaml") && strings.Contains(text, "\nspec: {}") {
			t.Errorf("%s removes the policy:\n%s", name, text)
		}
	}
	if !strings.Contains(files["10-policy/policy.yaml"], "\n#   sh apply.sh\n") {
		t.Errorf("the policy does not name its script:\n%s", files["10-policy/policy.yaml"])
	}
}

// TestSignaturePolicy: the ClusterImagePolicy is applied with the MachineConfigs, which stay the same. A rendering
// without it is rejected while its file is there.
func TestSignaturePolicy(t *testing.T) {
	t.Parallel()
	with, without := t.TempDir(), t.TempDir()
	// Of "openssl ecparam -name prime256v1 -genkey", and "openssl ec -pubout".
	const key = "-----BEGIN PUBLIC KEY-----\n" +
		"MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEE7Dgs6ky7biSjGzi6IUhkzXvnEnb\n" +
		"jdmFzqe3SufVGokUVSTKgY7M5TYrHZovVTjsdCZecaEUL7AtG/N6a5J+sw==\n" +
		"-----END PUBLIC KEY-----\n"
	args := []string{"render", "--image", image, "--signature-policy", "-", "--output-dir", with}
	if got := runLine(t, key, args...); got.code != cli.OK || !strings.Contains(got.out, with+"/97-image-policy.yaml") {
		t.Fatalf("%+v", got)
	}
	if got := runLine(t, "", "render", "--image", image, "--output-dir", without); got.code != cli.OK {
		t.Fatalf("%+v", got)
	}
	files := tree(t, with)
	if !strings.Contains(files["97-image-policy.yaml"], "\n  - registry.example.com/http01-proxyd\n") {
		t.Errorf("the policy has another scope:\n%s", files["97-image-policy.yaml"])
	}
	delete(files, "97-image-policy.yaml")
	if diff := cmp.Diff(tree(t, without), files); diff != "" {
		t.Errorf("(-without the policy +with it):\n%s", diff)
	}
	if got := runLine(t, "", "render", "--image", image, "--output-dir", with); got.code != cli.Failure ||
		!strings.Contains(got.err, with+"/97-image-policy.yaml of another rendering") {
		t.Errorf("%+v", got)
	}
	if got := runLine(t, "", args...); got.code != cli.Failure || !strings.Contains(got.err, "standard input is empty") {
		t.Errorf("%+v", got)
	}
}

// TestStaleFilesAreRejected: files that oc would also apply are named and not changed.
func TestStaleFilesAreRejected(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	render := func(more ...string) outcome {
		return runLine(t, "", append([]string{"render", "--output-dir", dir}, more...)...)
	}
	if got := render("--image", image); got.code != cli.OK {
		t.Fatalf("%+v", got)
	}
	must(t, os.WriteFile(filepath.Join(dir, "99-mine.yaml"), nil, 0o600))
	for name, again := range map[string][]string{"same pool": {"--image", image}, "layered": {"--layered"}} {
		if got := render(again...); got.code != cli.OK {
			t.Errorf("%s: %+v", name, got)
		}
	}
	before := tree(t, dir)
	for _, more := range [][]string{{"--image", image, "--pool", "worker"}, {"--layered", "--pool", "worker"}} {
		want := outcome{cli.Failure, "", "oc http01 render: " + dir + ": the folder has " +
			dir + "/98-master-http01-proxyd-config.yaml and " + dir +
			"/98-master-http01-proxyd.yaml of another rendering, which would also be applied: give another folder with " +
			"--output-dir, or remove them\n"}
		if diff := cmp.Diff(want, render(more...), cmp.AllowUnexported(outcome{})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", more, diff)
		}
	}
	if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

// TestNoFolder: --out is not a folder and cannot become one.
func TestNoFolder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	for _, out := range []string{file, filepath.Join(file, "below")} {
		got := runLine(t, "", "render", "--image", image, "--output-dir", out)
		if got.code != cli.Failure ||
			!strings.HasSuffix(got.err, "not a directory: give another folder with --output-dir\n") {
			t.Errorf("%+v", got)
		}
	}
	// takes no directory, root's neither
	proc := runLine(t, "", "render", "--image", image, "--output-dir", "/proc/http01-proxyd")
	if want := "oc http01 render: cannot write /proc/http01-proxyd/10-policy/policy.yaml: mkdir /proc/http01-proxyd: "; proc.code != cli.Failure ||
		!strings.HasPrefix(proc.err, want) || !strings.HasSuffix(proc.err, ": give another folder with --output-dir\n") {
		t.Errorf("%+v", proc)
	}
}

// TestConfigurationFromStdin: a configuration from standard input is validated like one
// from a file.
func TestConfigurationFromStdin(t *testing.T) {
	t.Parallel()
	good := runLine(t, "mode: \"\"\n", "render", "--image", image, "--config", "-", "--output-dir", "-")
	if good.code != cli.OK || !strings.Contains(good.out, "# Configuration: standard input\n") ||
		!strings.Contains(good.out, "source: \"data:,\\\n            mode:%20%22%22%0A\\\n            \"\n") {
		t.Errorf("%+v", good)
	}
	bad := runLine(t, "port: 1\n", "render", "--image", image, "--config", "-", "--output-dir", "-")
	if bad.code != cli.Failure || !strings.HasPrefix(bad.err, `oc http01 render: standard input:1:1: unknown key "port"`) {
		t.Errorf("%+v", bad)
	}
}

func TestLayered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	got := runLine(t, "", "render", "--layered", "--output-dir", dir)
	if got.code != cli.OK || !strings.HasPrefix(got.err, "note: a cluster has one policy for all pools") ||
		strings.Contains(got.out, "warning") {
		t.Fatalf("%+v", got)
	}
	files := tree(t, dir)
	for name, text := range files {
		if strings.Contains(text, "http01-proxyd-install") {
			t.Errorf("%s speaks of the installer", name)
		}
	}
	if !strings.Contains(files["98-master-http01-proxyd.yaml"], "ExecStart=/usr/bin/http01-proxyd run\n") {
		t.Errorf("%s", files["98-master-http01-proxyd.yaml"])
	}
}

func TestFCOS(t *testing.T) {
	t.Parallel()
	module := t.TempDir() // a small program with build information
	for name, text := range map[string]string{
		"go.mod":                    "module example.com/fork\n",
		"cmd/http01-proxyd/main.go": "package main\n\nfunc main() {}\n",
	} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(module, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(module, name), []byte(text), 0o600))
	}
	binary := filepath.Join(module, "b")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary,
		"./cmd/http01-proxyd")
	build.Dir = module
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOWORK=off", "GOFLAGS=-gcflags=all=-dwarf=false")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir := t.TempDir()
	got := runLine(t, "", "render", "--fcos", "--binary", binary, "--output-dir", dir, "-o", "json")
	var r renderedFiles
	if err := json.Unmarshal([]byte(got.out), &r); err != nil || got.code != cli.OK || got.err != "" ||
		len(r.Files) != 1 || r.Files[0].Architecture != runtime.GOARCH {
		t.Fatalf("%v %+v", err, got)
	}
	var text strings.Builder
	if err := r.text(&text); err != nil || strings.Contains(text.String(), "%") || !strings.Contains(text.String(),
		" for linux/"+runtime.GOARCH+"\n") {
		t.Errorf("%v %s", err, text.String())
	}
	var ignition struct {
		Ignition struct{ Version string }
		Storage  struct{ Files []struct{ Path string } }
	}
	must(t, json.Unmarshal([]byte(tree(t, dir)["http01-proxyd.ign"]), &ignition))
	if ignition.Ignition.Version != "3.4.0" || len(ignition.Storage.Files) != 3 {
		t.Errorf("%+v", ignition)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must1 returns the value of a call that must succeed.
func must1[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return value
	}
}
