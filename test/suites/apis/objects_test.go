// SPDX-License-Identifier: Apache-2.0

package apis

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const (
	head  = "apiVersion: config.openshift.io/v1\nkind: APIServer\nmetadata: {name: cluster}\n"
	field = "spec.http01ChallengeProxy"
	union = field +
		`: Invalid value: customDeployment is required when mode is CustomDeployment, and forbidden otherwise`
	modes    = `supported values: "DefaultDeployment", "CustomDeployment", ""`
	portPath = field + ".customDeployment.internalPort"
)

// objectWith returns an APIServer with the given value of the field in YAML flow style. An
// empty value means no field.
func objectWith(value string) []byte {
	if value == "" {
		return []byte(head + "spec: {}\n")
	}
	return []byte(head + "spec:\n  http01ChallengeProxy: " + value + "\n")
}

// customField returns the field with the given port.
func customField(port string) string {
	return "{mode: CustomDeployment, customDeployment: {internalPort: " + port + "}}"
}

// objectCase has a value of the field and the error of the API server under strict field
// validation, which oc requests. An empty want means that the value is accepted. stored is
// the stored field where it differs from the value.
type objectCase struct{ name, value, want, stored string }

const (
	notStored        = "nothing" // the field is not stored
	messageSeparator = "\x00"    // separates two messages
)

// messages returns the expected messages. It returns nil for an accepted object.
func (c objectCase) messages() []string {
	if c.want == "" {
		return nil
	}
	return strings.Split(c.want, messageSeparator)
}

// errorText returns the messages as the API server aggregates them.
func (c objectCase) errorText() string {
	if all := c.messages(); len(all) > 1 {
		return "[" + strings.Join(all, ", ") + "]"
	}
	return c.want
}

// storedField returns the stored field, or "" when it is not stored.
func (c objectCase) storedField() string {
	switch c.stored {
	case "":
		return c.value
	case notStored:
		return ""
	default:
		return c.stored
	}
}

func objectCases() []objectCase {
	both := func(one, two string) string { return one + messageSeparator + two }
	wrongType := func(path, got, want string) string {
		return path + `: Invalid value: "` + got + `": ` + path + ` in body must be of type ` + want + `: "` + got + `"`
	}
	noInt32 := `<nil>: Invalid value: "": Checked value must be of type integer with format int32 in ` + portPath
	low := func(port string) string {
		return portPath + ": Invalid value: " + port + ": " + portPath + " in body should be greater than or equal to 1024"
	}
	high := func(port string) string {
		return portPath + ": Invalid value: " + port + ": " + portPath + " in body should be less than or equal to 65535"
	}
	return []objectCase{
		{"absent", "", "", notStored},
		{"null", "null", "", notStored},
		{"default", "{mode: DefaultDeployment}", "", ""},
		{"disabled", `{mode: ""}`, "", ""},
		{"custom", customField("9888"), "", ""},
		{"the lowest port", customField("1024"), "", ""},
		{"the highest port", customField("65535"), "", ""},
		{"the default's port, given", customField("8888"), "", ""},
		{"default, null settings", "{mode: DefaultDeployment, customDeployment: null}", "", "{mode: DefaultDeployment}"},
		{"disabled, null settings", `{mode: "", customDeployment: null}`, "", `{mode: ""}`},
		{"a port in hexadecimal, as YAML has it", customField("0x26a0"), "", customField("9888")},
		{"a port in octal, as YAML 1.1 has it", customField("023240"), "", customField("9888")},
		{"a port in groups", customField("9_888"), "", customField("9888")},
		{"a port with a fraction of zero", customField("9888.0"), "", customField("9888")},
		{"a port with an exponent", customField("9.888e3"), "", customField("9888")},
		{"a port with a tag", customField("!!int 9888"), "", customField("9888")},
		{"a mode with a tag", "{mode: !!str DefaultDeployment}", "", "{mode: DefaultDeployment}"},
		{"a key in quotes", `{"mode": "DefaultDeployment"}`, "", ""},
		{"a merged mode", "{<<: {mode: DefaultDeployment}}", "", "{mode: DefaultDeployment}"},
		{"an anchor", "&a {mode: DefaultDeployment}", "", "{mode: DefaultDeployment}"},

		{"empty", "{}", field + ".mode: Required value", ""},
		{"settings alone", "{customDeployment: {internalPort: 9888}}", field + ".mode: Required value", ""},
		{"null mode", "{mode: null}", field + ".mode: Required value", ""},
		{"a mode in lower case", "{mode: defaultdeployment}", field + `.mode: Unsupported value: "defaultdeployment": ` +
			modes, ""},
		{"a word for disabled", "{mode: Disabled}", field + `.mode: Unsupported value: "Disabled": ` + modes, ""},
		{
			"a space behind the mode", `{mode: "DefaultDeployment "}`,
			field + `.mode: Unsupported value: "DefaultDeployment ": ` + modes, "",
		},
		{"a boolean as mode", "{mode: false}", both(wrongType(field+".mode", "boolean", "string"),
			field+`.mode: Unsupported value: false: `+modes), ""},
		{"a list of modes", "{mode: [DefaultDeployment]}", both(wrongType(field+".mode", "array", "string"),
			field+`.mode: Unsupported value: ["DefaultDeployment"]: `+modes), ""},

		{"custom without settings", "{mode: CustomDeployment}", union, ""},
		{"custom, null settings", "{mode: CustomDeployment, customDeployment: null}", union, ""},
		{"custom, empty settings", "{mode: CustomDeployment, customDeployment: {}}", portPath + ": Required value", ""},
		{"custom, null port", customField("null"), portPath + ": Required value", ""},
		{"default with settings", "{mode: DefaultDeployment, customDeployment: {internalPort: 9888}}", union, ""},
		{"default with the default's port", "{mode: DefaultDeployment, customDeployment: {internalPort: 8888}}", union, ""},
		{"disabled with settings", `{mode: "", customDeployment: {internalPort: 9888}}`, union, ""},
		{"default with empty settings", "{mode: DefaultDeployment, customDeployment: {}}", portPath + ": Required value", ""},
		{"disabled with empty settings", `{mode: "", customDeployment: {}}`, portPath + ": Required value", ""},

		{"below the lowest port", customField("1023"), low("1023"), ""},
		{"a port below zero", customField("-1"), low("-1"), ""},
		{"above the highest port", customField("65536"), high("65536"), ""},
		{"beyond int32", customField("2147483648"), both(noInt32, high("2147483648")), ""},
		{"beyond int64", customField("99999999999999999999"), both(wrongType(portPath, "float64", "int32")+messageSeparator+
			noInt32, high("1e+20")), ""},
		{"a port with a fraction", customField("9888.5"), both(wrongType(portPath, "float64", "int32"), noInt32), ""},
		{"not a number", customField(".nan"), "json: unsupported value: NaN", ""},
		{"a port with a tag for text", customField("!!str 9888"), wrongType(portPath, "string", "integer"), ""},
		{"a sexagesimal port", customField("1:30"), wrongType(portPath, "string", "integer"), ""},
		{"yes as mode", "{mode: yes}", both(wrongType(field+".mode", "boolean", "string"),
			field+`.mode: Unsupported value: true: `+modes), ""},
		{"a tilde as mode", "{mode: ~}", field + ".mode: Required value", ""},
		{"a port as text", customField(`"9888"`), wrongType(portPath, "string", "integer"), ""},
		{"ports", customField("[9888]"), wrongType(portPath, "array", "integer"), ""},
		{"a boolean as port", customField("true"), wrongType(portPath, "", "int32"), ""},
		{
			"a port with two errors in the object", "{mode: DefaultDeployment, customDeployment: {internalPort: 80}}",
			both(low("80"), union), "",
		},

		{"text", "DefaultDeployment", wrongType(field, "string", "object"), ""},
		{"a list", "[]", wrongType(field, "array", "object"), ""},
		{"settings as text", `{mode: CustomDeployment, customDeployment: "9888"}`, wrongType(field+".customDeployment",
			"string", "object"), ""},
		{"settings as a list", "{mode: CustomDeployment, customDeployment: []}", wrongType(field+".customDeployment", "array",
			"object"), ""},

		{"an unknown field", "{mode: DefaultDeployment, port: 9888}", `unknown field "` + field + `.port"`, ""},
		{
			"an unknown setting", "{mode: CustomDeployment, customDeployment: {internalPort: 9888, externalPort: 80}}",
			`unknown field "` + field + `.customDeployment.externalPort"`, "",
		},
		{"settings of the default", "{mode: DefaultDeployment, defaultDeployment: {}}", `unknown field "` + field +
			`.defaultDeployment"`, ""},
		{"the port beside the mode", "{mode: CustomDeployment, internalPort: 9888}", `unknown field "` + field +
			`.internalPort"`, ""},
		{"the mode in another case", "{Mode: DefaultDeployment}", `unknown field "` + field + `.Mode"`, ""},
		{
			"the mode twice", `{mode: DefaultDeployment, mode: ""}`,
			"yaml: unmarshal errors:\n  line 5: key \"mode\" already set in map", "",
		},
	}
}

// TestObjects creates each object and compares the error, or the stored field.
func TestObjects(t *testing.T) {
	for _, tt := range objectCases() {
		t.Run(tt.name, func(t *testing.T) {
			err := testServers(t).patched.Object(objectWith(tt.value))
			checkError(t, err, tt.errorText())
			if err != nil {
				return
			}
			stored, warnings, err := testServers(t).patched.Create(objectWith(tt.value))
			if err != nil || warnings != nil {
				t.Fatalf("create: %v, warnings %q", err, warnings)
			}
			checkStoredField(t, tt.storedField(), stored)
		})
	}
}

// wholeCase is a whole object with a part of the expected error. An empty want means that
// the object is accepted.
type wholeCase struct{ name, object, want string }

// wholeCases returns objects with the field in a wrong place, and other objects.
func wholeCases() []wholeCase {
	good := string(objectWith("{mode: DefaultDeployment}"))
	return []wholeCase{
		{"with the platform's other fields", strings.Replace(good, "spec:\n",
			"spec:\n  audit: {profile: None}\n  encryption: {type: aescbc}\n  additionalCORSAllowedOrigins: [a]\n", 1), ""},
		{"no spec", head, "spec: Required value"},
		{"null spec", head + "spec: null\n", "spec: Required value"},
		{
			"beside spec", head + "spec: {}\nhttp01ChallengeProxy: {mode: DefaultDeployment}\n",
			`unknown field "http01ChallengeProxy"`,
		},
		{
			"in the status", head + "spec: {}\nstatus: {http01ChallengeProxy: {mode: DefaultDeployment}}\n",
			`unknown field "status.http01ChallengeProxy"`,
		},
		{"in another case", strings.Replace(good, "http01C", "HTTP01C", 1), `unknown field "spec.HTTP01ChallengeProxy"`},
		{"misspelt", strings.Replace(good, "Challenge", "Challeng", 1), `unknown field "spec.http01ChallengProxy"`},
		{"beside an unknown one", good + "  frontDoor: {}\n", `unknown field "spec.frontDoor"`},
		{
			"with an error elsewhere too", strings.Replace(good, "DefaultDeployment}", "Disabled}\n  audit: {profile: All}", 1),
			`spec.audit.profile: Unsupported value: "All"`,
		},
		{
			"no name", strings.Replace(good, "{name: cluster}", "{}", 1),
			"metadata.name: Required value: name or generateName is required",
		},
		{
			"in a namespace", strings.Replace(good, "{name: cluster}", "{name: cluster, namespace: default}", 1),
			"metadata.namespace: Forbidden: not allowed on this type",
		},
		{
			"another kind", strings.Replace(good, "kind: APIServer", "kind: KubeAPIServer", 1),
			"no schema for config.openshift.io/v1, Kind=KubeAPIServer",
		},
		{
			"another version", strings.Replace(good, "openshift.io/v1", "openshift.io/v2", 1),
			"no schema for config.openshift.io/v2, Kind=APIServer",
		},
	}
}

func TestWholeObjects(t *testing.T) {
	for _, tt := range wholeCases() {
		t.Run(tt.name, func(t *testing.T) {
			err := testServers(t).patched.Object([]byte(tt.object))
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error: %v\nwant: %s", err, tt.want)
			}
		})
	}
}

// checkError compares the whole error without the object's name. An empty want means no
// error.
func checkError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err == nil:
	case want == "":
		t.Errorf("refused: %v", err)
	case err == nil:
		t.Errorf("accepted, want: %s", want)
	case strings.TrimPrefix(err.Error(), `APIServer "cluster": `) != want:
		t.Errorf("error: %v\nwant: %s", err, want)
	}
}

// checkStoredField compares the stored field. An empty want means no field.
func checkStoredField(t *testing.T, want string, stored []byte) {
	t.Helper()
	if diff := cmp.Diff(proxyField(t, objectWith(want)), proxyField(t, stored)); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

func proxyField(t *testing.T, document []byte) any {
	t.Helper()
	var o struct {
		Spec map[string]any
	}
	must(t, yaml.Unmarshal(document, &o))
	return o.Spec["http01ChallengeProxy"]
}
