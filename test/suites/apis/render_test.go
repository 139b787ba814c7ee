// SPDX-License-Identifier: Apache-2.0

package apis

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// infrastructure is that of a cluster whose VIPs keepalived holds.
const infrastructure = `apiVersion: config.openshift.io/v1
kind: Infrastructure
metadata: {name: cluster}
status:
  platformStatus:
    type: BareMetal
    baremetal: {apiServerInternalIPs: [192.0.2.5], ingressIPs: [192.0.2.6]}
`

// renderResult is what came of `http01-machineconfig render`.
type renderResult struct {
	refused  bool
	config   any      // for what the hosts' configuration asks
	messages []string // of the APIServer, each without its place
}

// buildRenderer is the program, run as an admin does.
func buildRenderer(t *testing.T) func(t *testing.T, apiServer []byte, flags ...string) renderResult {
	t.Helper()
	program, err := lab.BuildCommand(t.Context(), "http01-machineconfig")
	must(t, err)
	return func(t *testing.T, apiServer []byte, flags ...string) renderResult {
		t.Helper()
		dir := t.TempDir()
		for name, text := range map[string][]byte{"a.yaml": apiServer, "i.yaml": []byte(infrastructure)} {
			must(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
		}
		var stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), program, append([]string{
			"render", "--layered", "--apiserver", "a.yaml", "--infrastructure", "i.yaml", "--out", "out",
		}, flags...)...)
		cmd.Dir, cmd.Stderr = dir, &stderr
		err := cmd.Run()
		var r renderResult
		for _, line := range regexp.MustCompile(`(?m)^.*\ba\.yaml:\d+:\d+: (.*)$`).FindAllStringSubmatch(stderr.String(), -1) {
			r.messages = append(r.messages, line[1])
		}
		var exit *exec.ExitError
		switch {
		case errors.As(err, &exit) && exit.ExitCode() == 1:
			if _, err := os.Stat(filepath.Join(dir, "out")); err == nil {
				t.Error("it is refused, and something is written")
			}
			r.refused = true
		case err != nil:
			t.Fatalf("%v\n%s", err, stderr.Bytes())
		default:
			r.config = readRenderedConfig(t, filepath.Join(dir, "out"))
		}
		return r
	}
}

// readRenderedConfig is what of a host's configuration is the API's.
func readRenderedConfig(t *testing.T, dir string) any {
	t.Helper()
	text := must1(lab.RenderedConfig(dir))(t)
	var all map[string]any
	must(t, yaml.Unmarshal(text, &all))
	if all["mode"] == "" && all["vips"] != nil || all["mode"] != "" && all["vips"] == nil {
		t.Errorf("VIPs do not go with the mode:\n%s", text)
	}
	delete(all, "vips")
	delete(all, "hosts")
	return all
}

// expectedDifference is what the renderer says in another way than the API server, on
// purpose; or takes, when it says nothing.
type expectedDifference struct {
	reason   string
	messages []string
}

// differences are all that there are, by the case.
func differences() map[string]expectedDifference {
	const (
		oneReader = "which of the values counts is not left to a reader: what oc prints has none of these"
		oneFault  = "the wrong type is all that there is to say of a value"
		asYAML12  = "they are texts in YAML 1.2, and booleans to the API server; neither is a mode"
		allFaults = "every problem is told at once; the API server stops before its rules, or after unknown fields"
		itsPlace  = "the value has a place in the file, and a type"
		notOurs   = "the values of the platform's other fields are not judged"
		aFile     = "the file may be any"
	)
	wrongType := func(path, got, want string) string {
		return path + `: Invalid value: "` + got + `": ` + path + ` in body must be of type ` + want + `: "` + got + `"`
	}
	bounds := func(port, bound string) string {
		return portPath + ": Invalid value: " + port + ": " + portPath + " in body should be " + bound
	}
	const low, high = "greater than or equal to 1024", "less than or equal to 65535"
	unsupported := func(mode string) string { return field + ".mode: Unsupported value: " + mode + ": " + modes }
	return map[string]expectedDifference{
		"a merge of nothing": {oneReader, []string{"anchors, aliases and merge keys are not supported"}},
		"a merged mode":      {oneReader, []string{"anchors, aliases and merge keys are not supported"}},
		"an anchor":          {oneReader, []string{"anchors, aliases and merge keys are not supported"}},
		"a mode in base64":   {oneReader, []string{unsupported(`"RGVmYXVsdERlcGxveW1lbnQ="`)}},
		"the mode twice":     {itsPlace, []string{`duplicate key "mode"`}},

		"a truth value as mode": {oneFault, []string{wrongType(field+".mode", "boolean", "string")}},
		"a number as mode":      {oneFault, []string{wrongType(field+".mode", "integer", "string")}},
		"a list of modes":       {oneFault, []string{wrongType(field+".mode", "array", "string")}},
		"yes as mode":           {asYAML12, []string{unsupported(`"yes"`)}},
		"off as mode":           {asYAML12, []string{unsupported(`"off"`)}},
		"y as mode":             {asYAML12, []string{unsupported(`"y"`)}},

		"beyond int32":                    {oneFault, []string{bounds("2147483648", high)}},
		"a port below zero, beyond int32": {oneFault, []string{bounds("-2147483649", low)}},
		"beyond int64":                    {oneFault, []string{bounds("100000000000000000000", high)}},
		"beyond uint64, below zero":       {oneFault, []string{bounds("-100000000000000000000", low)}},
		"a port with a fraction":          {oneFault, []string{wrongType(portPath, "number", "integer")}},
		"a truth value as port":           {itsPlace, []string{wrongType(portPath, "boolean", "integer")}},
		"no number":                       {itsPlace, []string{wrongType(portPath, "number", "integer")}},
		"a port without an end":           {itsPlace, []string{wrongType(portPath, "number", "integer")}},
		"a list of one":                   {oneFault, []string{wrongType(field, "array", "object")}},
		"settings as a list of one":       {oneFault, []string{wrongType(field+".customDeployment", "array", "object")}},
		"default with empty settings":     {allFaults, []string{union, portPath + ": Required value"}},
		"disabled with empty settings":    {allFaults, []string{union, portPath + ": Required value"}},
		"the port beside the mode":        {allFaults, []string{`unknown field "` + field + `.internalPort"`, union}},
		"the mode in another case":        {allFaults, []string{`unknown field "` + field + `.Mode"`, field + ".mode: Required value"}},
		"with a fault elsewhere too":      {notOurs, []string{unsupported(`"Disabled"`)}},
		"no name":                         {aFile, []string{"metadata.name: Required value"}},
		"another kind":                    {aFile, []string{`"KubeAPIServer" of "config.openshift.io/v1" is not an APIServer of config.openshift.io/v1`}},
		"another version":                 {aFile, []string{`"APIServer" of "config.openshift.io/v2" is not an APIServer of config.openshift.io/v1`}},
	}
}

// What the API server refuses the renderer refuses, in the same words with a place
// before them and a mend behind them, and what the one takes the other takes.
func TestRendererAgrees(t *testing.T) {
	render, differ := buildRenderer(t), differences()
	judged := func(t *testing.T, name string, document []byte, messages []string, stored string) {
		t.Helper()
		d, differs := differ[name]
		delete(differ, name)
		if differs {
			if cmp.Equal(messages, d.messages) {
				t.Errorf("there is no difference any more: %s", d.reason)
			}
			messages = d.messages
		}
		got := render(t, document, "--strict")
		if got.refused != (len(messages) > 0) {
			t.Fatalf("refused: %t, with %q, not %q", got.refused, got.messages, messages)
		}
		if !got.refused {
			if diff := cmp.Diff(wantConfig(t, []byte(stored)), got.config); diff != "" {
				t.Errorf("the hosts are told (-stored +told):\n%s", diff)
			}
			return
		}
		for _, m := range messages {
			if !slices.ContainsFunc(got.messages, func(said string) bool { return strings.HasPrefix(said, m+": ") }) {
				t.Errorf("it says %q, not %q", got.messages, m)
			}
		}
		if len(got.messages) != len(messages) {
			t.Errorf("it says %q, and is to say %q", got.messages, messages)
		}
	}
	for _, tt := range objectCases() {
		t.Run(tt.name, func(t *testing.T) {
			judged(t, tt.name, objectWith(tt.value), tt.messages(), string(objectWith(tt.storedField())))
		})
	}
	for _, tt := range wholeCases() {
		t.Run(tt.name, func(t *testing.T) {
			var messages []string
			if tt.want != "" {
				messages = []string{tt.want}
			}
			judged(t, tt.name, []byte(tt.object), messages, tt.object)
		})
	}
	for name, d := range differ {
		t.Errorf("no case is called %q: %s", name, d.reason)
	}
}

// wantConfig is what a stored object asks of the hosts; an absent field disables.
func wantConfig(t *testing.T, document []byte) any {
	t.Helper()
	if asked := proxyField(t, document); asked != nil {
		return asked
	}
	return map[string]any{"mode": ""}
}

// Without strict validation, as `oc --validate=warn` asks for, unknown fields are
// left out with the same words by both.
func TestRendererWarns(t *testing.T) {
	render := buildRenderer(t)
	const unknown = `unknown field "`
	for _, tt := range objectCases() {
		if !strings.HasPrefix(tt.want, unknown) {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			stored, warnings, err := testServers(t).patched.Create(objectWith(tt.value))
			got := render(t, objectWith(tt.value))
			if got.refused != (err != nil) {
				t.Fatalf("refused: %t, with %q; by the API server: %v", got.refused, got.messages, err)
			}
			if err != nil {
				return
			}
			for i, said := range got.messages { // it has a mend too
				got.messages[i] = regexp.MustCompile(`": .*$`).ReplaceAllString(said, `"`)
			}
			if diff := cmp.Diff(warnings, got.messages); diff != "" {
				t.Errorf("warnings (-API server +renderer):\n%s", diff)
			}
			if diff := cmp.Diff(wantConfig(t, stored), got.config); diff != "" {
				t.Errorf("the hosts are told (-stored +told):\n%s", diff)
			}
		})
	}
}

// What the patched API server has stored and prints is rendered; what one without
// the patch has stored disables.
func TestRendererReadsStoredObjects(t *testing.T) {
	render := buildRenderer(t)
	for name, value := range fieldStates() {
		t.Run(name, func(t *testing.T) {
			stored := must1(testServers(t).patched.Apply(nil, objectWith(value), "admin", false))(t)
			if !bytes.Contains(stored, []byte("managedFields")) {
				t.Fatalf("it is not as stored:\n%s", stored)
			}
			if got := render(t, stored, "--strict"); got.refused || !cmp.Equal(wantConfig(t, stored), got.config) {
				t.Errorf("%+v", got)
			}
			plain, _, err := testServers(t).plain.Create(objectWith(value))
			must(t, err)
			if got := render(t, plain, "--strict"); got.refused || !cmp.Equal(map[string]any{"mode": ""}, got.config) {
				t.Errorf("without the patch: %+v", got)
			}
		})
	}
}
