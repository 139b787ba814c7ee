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

// infrastructure is the Infrastructure of a cluster with keepalived VIPs.
const infrastructure = `apiVersion: config.openshift.io/v1
kind: Infrastructure
metadata: {name: cluster}
status:
  platformStatus:
    type: BareMetal
    baremetal: {apiServerInternalIPs: [192.0.2.5], ingressIPs: [192.0.2.6]}
`

// renderResult is the result of `oc-http01 render`.
type renderResult struct {
	refused  bool
	config   any      // configuration for the hosts
	messages []string // about the object, without the position
}

// buildRenderer builds oc-http01 and returns a function that runs it as an administrator
// does. The flag is that of the object with the mode. Absent settings are accepted, as by
// the API server.
func buildRenderer(t *testing.T, flag string) func(t *testing.T, object []byte, flags ...string) renderResult {
	t.Helper()
	program, err := lab.BuildCommand(t.Context(), "oc-http01")
	must(t, err)
	return func(t *testing.T, object []byte, flags ...string) renderResult {
		t.Helper()
		dir := t.TempDir()
		for name, text := range map[string][]byte{"a.yaml": object, "i.yaml": []byte(infrastructure)} {
			must(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
		}
		var stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), program, append([]string{
			"render", "--layered", "--allow-disabled", flag, "a.yaml", "--infrastructure", "i.yaml", "--output-dir", "out",
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
				t.Error("render refused the object and wrote output")
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

// readRenderedConfig returns the API fields of the rendered host configuration.
func readRenderedConfig(t *testing.T, dir string) any {
	t.Helper()
	text := must1(lab.RenderedConfig(dir))(t)
	var all map[string]any
	must(t, yaml.Unmarshal(text, &all))
	if all["mode"] == "" && all["vips"] != nil || all["mode"] != "" && all["vips"] == nil {
		t.Errorf("the VIPs do not match the mode:\n%s", text)
	}
	delete(all, "vips")
	delete(all, "hosts")
	return all
}

// expectedDifference is an intended difference between the renderer and the API server.
// Without messages the renderer accepts the object.
type expectedDifference struct {
	reason   string
	messages []string
}

// differences returns all intended differences by case.
func differences() map[string]expectedDifference {
	const (
		ambiguous    = "the renderer rejects ambiguous values, which oc never prints"
		oneError     = "one error about the type is enough"
		asYAML12     = "YAML 1.2 strings, booleans for the API server; neither is a mode"
		allErrors    = "the renderer reports all errors; the API server stops before its rules or after unknown fields"
		position     = "the renderer reports the position and the type"
		notValidated = "the renderer does not validate other fields of the platform"
		anyFile      = "the renderer accepts any file"
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
		"a merge of nothing": {ambiguous, []string{"anchors, aliases and merge keys are not supported"}},
		"a merged mode":      {ambiguous, []string{"anchors, aliases and merge keys are not supported"}},
		"an anchor":          {ambiguous, []string{"anchors, aliases and merge keys are not supported"}},
		"a mode in base64":   {ambiguous, []string{unsupported(`"RGVmYXVsdERlcGxveW1lbnQ="`)}},
		"the mode twice":     {position, []string{`duplicate key "mode"`}},

		"a boolean as mode": {oneError, []string{wrongType(field+".mode", "boolean", "string")}},
		"a number as mode":  {oneError, []string{wrongType(field+".mode", "integer", "string")}},
		"a list of modes":   {oneError, []string{wrongType(field+".mode", "array", "string")}},
		"yes as mode":       {asYAML12, []string{unsupported(`"yes"`)}},
		"off as mode":       {asYAML12, []string{unsupported(`"off"`)}},
		"y as mode":         {asYAML12, []string{unsupported(`"y"`)}},

		"beyond int32":                    {oneError, []string{bounds("2147483648", high)}},
		"a port below zero, beyond int32": {oneError, []string{bounds("-2147483649", low)}},
		"beyond int64":                    {oneError, []string{bounds("100000000000000000000", high)}},
		"beyond uint64, below zero":       {oneError, []string{bounds("-100000000000000000000", low)}},
		"a port with a fraction":          {oneError, []string{wrongType(portPath, "number", "integer")}},
		"a boolean as port":               {position, []string{wrongType(portPath, "boolean", "integer")}},
		"not a number":                    {position, []string{wrongType(portPath, "number", "integer")}},
		"an infinite port":                {position, []string{wrongType(portPath, "number", "integer")}},
		"a list of one":                   {oneError, []string{wrongType(field, "array", "object")}},
		"settings as a list of one":       {oneError, []string{wrongType(field+".customDeployment", "array", "object")}},
		"default with empty settings":     {allErrors, []string{union, portPath + ": Required value"}},
		"disabled with empty settings":    {allErrors, []string{union, portPath + ": Required value"}},
		"the port beside the mode":        {allErrors, []string{`unknown field "` + field + `.internalPort"`, union}},
		"the mode in another case":        {allErrors, []string{`unknown field "` + field + `.Mode"`, field + ".mode: Required value"}},
		"with an error elsewhere too":     {notValidated, []string{unsupported(`"Disabled"`)}},
		"no name":                         {anyFile, []string{"metadata.name: Required value"}},
		"another kind":                    {anyFile, []string{`"KubeAPIServer" of "config.openshift.io/v1" is not an APIServer of config.openshift.io/v1`}},
		"another version":                 {anyFile, []string{`"APIServer" of "config.openshift.io/v2" is not an APIServer of config.openshift.io/v1`}},
	}
}

// TestRendererAgrees holds that the renderer rejects what the API server rejects, with the
// same message, a position before it and a remediation after it. It accepts what the API
// server accepts.
func TestRendererAgrees(t *testing.T) {
	render, differ := buildRenderer(t, "--apiserver"), differences()
	agrees := func(t *testing.T, name string, document []byte, messages []string, stored string) {
		t.Helper()
		d, differs := differ[name]
		delete(differ, name)
		if differs {
			if cmp.Equal(messages, d.messages) {
				t.Errorf("the difference no longer exists: %s", d.reason)
			}
			messages = d.messages
		}
		got := render(t, document, "--strict")
		if got.refused != (len(messages) > 0) {
			t.Fatalf("refused: %t with %q, want %q", got.refused, got.messages, messages)
		}
		if !got.refused {
			if diff := cmp.Diff(wantConfig(t, []byte(stored)), got.config); diff != "" {
				t.Errorf("configuration (-stored +rendered):\n%s", diff)
			}
			return
		}
		for _, m := range messages {
			if !slices.ContainsFunc(got.messages, func(got string) bool { return strings.HasPrefix(got, m+": ") }) {
				t.Errorf("messages %q, want %q", got.messages, m)
			}
		}
		if len(got.messages) != len(messages) {
			t.Errorf("messages %q, want %q", got.messages, messages)
		}
	}
	for _, tt := range objectCases() {
		t.Run(tt.name, func(t *testing.T) {
			agrees(t, tt.name, objectWith(tt.value), tt.messages(), string(objectWith(tt.storedField())))
		})
	}
	for _, tt := range wholeCases() {
		t.Run(tt.name, func(t *testing.T) {
			var messages []string
			if tt.want != "" {
				messages = []string{tt.want}
			}
			agrees(t, tt.name, []byte(tt.object), messages, tt.object)
		})
	}
	for name, d := range differ {
		t.Errorf("no case has the name %q: %s", name, d.reason)
	}
}

// wantConfig returns the host configuration for a stored object. An absent field means
// disabled.
func wantConfig(t *testing.T, document []byte) any {
	t.Helper()
	if value := proxyField(t, document); value != nil {
		return value
	}
	return map[string]any{"mode": ""}
}

// TestRendererWarns holds that without strict validation (`oc --validate=warn`) the
// renderer reports unknown fields with the words of the API server.
func TestRendererWarns(t *testing.T) {
	render := buildRenderer(t, "--apiserver")
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
			for i, output := range got.messages { // the remediation follows
				got.messages[i] = regexp.MustCompile(`": .*$`).ReplaceAllString(output, `"`)
			}
			if diff := cmp.Diff(warnings, got.messages); diff != "" {
				t.Errorf("warnings (-API server +renderer):\n%s", diff)
			}
			if diff := cmp.Diff(wantConfig(t, stored), got.config); diff != "" {
				t.Errorf("configuration (-stored +rendered):\n%s", diff)
			}
		})
	}
}

// TestRendererReadsStoredObjects renders objects as the API server prints them. An object
// stored without the patch renders to disabled.
func TestRendererReadsStoredObjects(t *testing.T) {
	render := buildRenderer(t, "--apiserver")
	for name, value := range fieldStates() {
		t.Run(name, func(t *testing.T) {
			stored := must1(testServers(t).patched.Apply(nil, objectWith(value), "admin", false))(t)
			if !bytes.Contains(stored, []byte("managedFields")) {
				t.Fatalf("the object has no managedFields:\n%s", stored)
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
