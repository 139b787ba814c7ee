// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	configv1 "github.com/http01-proxyd/http01-proxyd/pkg/apis/config/v1"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

// The field of the APIServer.
const (
	challengeProxyName  = "http01ChallengeProxy"
	challengeProxyField = "spec." + challengeProxyName
)

// challengeProxyModes returns the values of the mode, in the order of the CRD.
func challengeProxyModes() []configv1.HTTP01ChallengeProxyMode {
	return []configv1.HTTP01ChallengeProxyMode{
		configv1.HTTP01ChallengeProxyModeDefault, configv1.HTTP01ChallengeProxyModeCustom, configv1.HTTP01ChallengeProxyModeDisabled,
	}
}

// challengeProxy is the content of spec.http01ChallengeProxy.
type challengeProxy struct {
	present bool // the field exists
	valid   bool // the mode is a known value
	mode    configv1.HTTP01ChallengeProxyMode
	port    uint16
}

// disabled reports whether the mode disables the proxy. It is false for an invalid
// mode.
func (d challengeProxy) disabled() bool {
	return d.valid && d.mode == configv1.HTTP01ChallengeProxyModeDisabled
}

// readChallengeProxy validates the field by the rules of its CRD, and uses the API
// server's messages. It accepts what the API server accepts.
func (r *clusterReader) readChallengeProxy(o clusterObject) challengeProxy {
	absent := challengeProxy{valid: true, mode: configv1.HTTP01ChallengeProxyModeDisabled}
	spec := nonNullMember(o.node, "spec")
	if spec == nil {
		r.rejectAt(o.file, o.node, "spec: Required value", objectRemediation(kindAPIServer))
		return challengeProxy{}
	}
	if !r.requireObject(o.file, spec, "spec") {
		return challengeProxy{}
	}
	field := nonNullMember(spec, challengeProxyName)
	if field == nil {
		return absent
	}
	if !r.requireObject(o.file, field, challengeProxyField) {
		return challengeProxy{}
	}
	d := challengeProxy{present: true}
	d.mode, d.valid = r.readMode(o.file, field)
	custom := nonNullMember(field, "customDeployment")
	if d.valid && (d.mode == configv1.HTTP01ChallengeProxyModeCustom) != (custom != nil) {
		place, remediation := custom, "delete customDeployment, or set mode: CustomDeployment"
		if custom == nil {
			place, remediation = field, "add customDeployment: {internalPort: "+misplacedPort(field)+"}"
		}
		r.rejectAt(o.file, place, challengeProxyField+": Invalid value: "+configv1.HTTP01ChallengeProxyUnionMessage, remediation)
	}
	d.port = config.DefaultInternalPort
	if custom != nil {
		d.port = r.readInternalPort(o.file, custom)
	}
	return d
}

// nonNullMember returns the value at a key, or nil. Null counts as absent: the API
// server drops it.
func nonNullMember(n *yaml.Node, key string) *yaml.Node {
	value := member(n, key)
	if value == nil || jsonType(value) == "null" {
		return nil
	}
	return value
}

func (r *clusterReader) readMode(file string, field *yaml.Node) (configv1.HTTP01ChallengeProxyMode, bool) {
	const path, remediation = challengeProxyField + ".mode", `write DefaultDeployment, CustomDeployment, or "" to disable the proxy`
	n := nonNullMember(field, "mode")
	switch {
	case n == nil:
		r.rejectAt(file, field, path+": Required value", remediation)
		return "", false
	case jsonType(n) != "string":
		r.rejectType(file, n, path, "string", remediation)
		return "", false
	case !slices.Contains(challengeProxyModes(), configv1.HTTP01ChallengeProxyMode(n.Value)):
		values := make([]string, 0, len(challengeProxyModes()))
		for _, m := range challengeProxyModes() {
			values = append(values, strconv.Quote(string(m)))
		}
		r.rejectAt(file, n, fmt.Sprintf("%s: Unsupported value: %.100q: supported values: %s", path, n.Value, strings.Join(values, ", ")), remediation)
		return "", false
	}
	return configv1.HTTP01ChallengeProxyMode(n.Value), true
}

func (r *clusterReader) readInternalPort(file string, custom *yaml.Node) uint16 {
	const path = challengeProxyField + ".customDeployment"
	const portPath = path + ".internalPort"
	remediation := fmt.Sprintf("give a whole number from %d to %d", configv1.HTTP01ChallengeProxyMinInternalPort, configv1.HTTP01ChallengeProxyMaxInternalPort)
	if !r.requireObject(file, custom, path) {
		return 0
	}
	n := nonNullMember(custom, "internalPort")
	if n == nil {
		r.rejectAt(file, custom, portPath+": Required value", remediation)
		return 0
	}
	text, isNumber := wholeNumber(n)
	if !isNumber {
		r.rejectType(file, n, portPath, "integer", remediation)
		return 0
	}
	port, err := strconv.ParseInt(text, 0, 64)
	shown := strconv.FormatInt(port, 10)
	if errors.Is(err, strconv.ErrRange) { // port has the limit of its type
		shown, err = fmt.Sprintf("%.40s", text), nil
	}
	switch {
	case err != nil:
		r.rejectAt(file, n, fmt.Sprintf("%s: Invalid value: %.40q", portPath, n.Value), remediation)
	case port < configv1.HTTP01ChallengeProxyMinInternalPort:
		r.rejectAt(file, n, fmt.Sprintf("%s: Invalid value: %s: %s in body should be greater than or equal to %d", portPath, shown, portPath, configv1.HTTP01ChallengeProxyMinInternalPort), remediation)
	case port > configv1.HTTP01ChallengeProxyMaxInternalPort:
		r.rejectAt(file, n, fmt.Sprintf("%s: Invalid value: %s: %s in body should be less than or equal to %d", portPath, shown, portPath, configv1.HTTP01ChallengeProxyMaxInternalPort), remediation)
	default:
		return uint16(port)
	}
	return 0
}

// misplacedPort returns the port beside the mode, where the API server would drop it,
// or else the default port.
func misplacedPort(field *yaml.Node) string {
	if n := nonNullMember(field, "internalPort"); n != nil && jsonType(n) == "integer" && len(n.Value) <= len("65535") {
		return n.Value
	}
	return strconv.Itoa(config.DefaultInternalPort)
}

// wholeNumber returns the text of a whole number. JSON has one type of number: 9888.0
// and 9.888e3 are 9888. The YAML parser of oc ignores "_" anywhere after the first
// character (sigs.k8s.io/yaml, goyaml.v2's resolve.go).
func wholeNumber(n *yaml.Node) (string, bool) {
	plain := strings.ReplaceAll(n.Value, "_", "")
	switch jsonType(n) {
	case "integer":
		return plain, true
	case "number":
		f, err := strconv.ParseFloat(plain, 64)
		return strconv.FormatFloat(f, 'f', 0, 64), err == nil && f == math.Trunc(f) && !math.IsInf(f, 0)
	default:
		return "", false
	}
}

func (r *clusterReader) requireObject(file string, n *yaml.Node, path string) bool {
	if n.Kind == yaml.MappingNode {
		return true
	}
	r.rejectType(file, n, path, "object", "write keys and values")
	return false
}

// rejectType records a wrong type with the API server's message.
func (r *clusterReader) rejectType(file string, n *yaml.Node, path, want, remediation string) {
	is := jsonType(n)
	r.rejectAt(file, n, fmt.Sprintf("%s: Invalid value: %q: %s in body must be of type %s: %q", path, is, path, want, is), remediation)
}

func jsonType(n *yaml.Node) string {
	if n.Kind == yaml.MappingNode {
		return "object"
	}
	if n.Kind == yaml.SequenceNode {
		return "array"
	}
	switch n.Tag {
	case "!!null":
		return "null"
	case "!!bool":
		return "boolean"
	case "!!int":
		return "integer"
	case "!!float":
		return "number"
	default:
		return "string"
	}
}
