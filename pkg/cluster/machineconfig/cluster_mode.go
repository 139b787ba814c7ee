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
	operatorv1alpha1 "github.com/http01-proxyd/http01-proxyd/pkg/apis/operator/v1alpha1"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

// The field of the APIServer.
const (
	challengeProxyName   = "http01ChallengeProxy"
	challengeProxyField  = "spec." + challengeProxyName
	challengeProxyAbsent = challengeProxyField + " is absent"
)

// challengeProxy is the content of the object with the settings of the proxy.
type challengeProxy struct {
	valid bool // the mode is a known value
	mode  configv1.HTTP01ChallengeProxyMode
	port  uint16

	file    string // the file with the object, for messages
	object  string // the object and its field, for comments
	absence string // why there are no settings; empty: they are present
	place   *yaml.Node
}

// disabled reports whether the mode disables the proxy. It is false for an invalid
// mode.
func (d challengeProxy) disabled() bool {
	return d.valid && d.mode == configv1.HTTP01ChallengeProxyModeDisabled
}

// absent returns settings that disable the proxy because they are absent. place is nil
// if the whole object is absent.
func absent(file, object, reason string, place *yaml.Node) challengeProxy {
	return challengeProxy{valid: true, mode: configv1.HTTP01ChallengeProxyModeDisabled, file: file, object: object, absence: reason, place: place}
}

// rejectAbsence rejects absent settings: they are more often a mistake than the wish to
// disable the proxy.
func (r *clusterReader) rejectAbsence(d challengeProxy) {
	const remediation = "give the object with its mode; to disable the proxy, give --allow-disabled (ALLOW_DISABLED=1 of make)"
	message := d.absence + ", which would disable the proxy"
	if d.place == nil {
		r.reject(d.file, message, remediation)
		return
	}
	r.rejectAt(d.file, d.place, message, remediation)
}

// readProxy returns the settings of the one object that has them.
func (r *clusterReader) readProxy(c ClusterObjects, found map[string]*clusterObject) challengeProxy {
	apiServer, object := found[kindAPIServer], found[kindHTTP01Proxy]
	var field challengeProxy
	if apiServer != nil {
		field = r.readChallengeProxy(*apiServer)
	}
	switch {
	case object == nil && c.HTTP01Proxy != nil && (apiServer == nil || field.absence != ""):
		return absent(c.HTTP01Proxy.Name, kindHTTP01Proxy, "contains no "+kindHTTP01Proxy, nil)
	case object == nil:
		return field
	case field.file != "" && field.absence == "":
		r.rejectAt(object.file, object.node, "the "+kindAPIServer+" at "+position(apiServer.file, apiServer.node)+" also has the settings of the proxy", "remove "+challengeProxyField+" there, or this object")
	}
	return r.readHTTP01Proxy(*object)
}

// proxyForm is the form in which an object has the settings.
type proxyForm struct {
	path            string // of the settings
	modes           []configv1.HTTP01ChallengeProxyMode
	modeRemediation string
	defaults        bool // the mode and the port have defaults
}

func apiServerForm() proxyForm {
	return proxyForm{
		challengeProxyField,
		[]configv1.HTTP01ChallengeProxyMode{
			configv1.HTTP01ChallengeProxyModeDefault, configv1.HTTP01ChallengeProxyModeCustom, configv1.HTTP01ChallengeProxyModeDisabled,
		},
		`write DefaultDeployment, CustomDeployment, or "" to disable the proxy`,
		false,
	}
}

func http01ProxyForm() proxyForm {
	return proxyForm{
		"spec",
		[]configv1.HTTP01ChallengeProxyMode{
			configv1.HTTP01ChallengeProxyMode(operatorv1alpha1.HTTP01ProxyModeDefault), configv1.HTTP01ChallengeProxyMode(operatorv1alpha1.HTTP01ProxyModeCustom),
		},
		"write DefaultDeployment or CustomDeployment; to disable the proxy, delete the object",
		true,
	}
}

// readChallengeProxy validates the field by the rules of its CRD, and uses the API
// server's messages. It accepts what the API server accepts.
func (r *clusterReader) readChallengeProxy(o clusterObject) challengeProxy {
	const object = kindAPIServer + " " + singleton + ", " + challengeProxyField
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
		return absent(o.file, object, challengeProxyAbsent, spec)
	}
	return r.readSettings(o.file, object, field, apiServerForm())
}

// readHTTP01Proxy validates the object by the rules of its types
// (pkg/apis/operator/v1alpha1).
func (r *clusterReader) readHTTP01Proxy(o clusterObject) challengeProxy {
	object := kindHTTP01Proxy
	if metadata := nonNullMember(o.node, "metadata"); metadata != nil {
		if name := stringValue(member(metadata, "name")); slices.Contains(singletons(kindHTTP01Proxy), name) {
			object += " " + name
		}
		if deleted := nonNullMember(metadata, "deletionTimestamp"); deleted != nil {
			return absent(o.file, object, "the "+kindHTTP01Proxy+" is being deleted", deleted)
		}
	}
	spec := nonNullMember(o.node, "spec")
	if spec == nil {
		r.rejectAt(o.file, o.node, "spec: Required value", "write spec: {mode: DefaultDeployment}")
		return challengeProxy{}
	}
	return r.readSettings(o.file, object+", spec", spec, http01ProxyForm())
}

// readSettings validates the mode and the port.
func (r *clusterReader) readSettings(file, object string, field *yaml.Node, form proxyForm) challengeProxy {
	if !r.requireObject(file, field, form.path) {
		return challengeProxy{}
	}
	d := challengeProxy{file: file, object: object}
	d.mode, d.valid = r.readMode(file, field, form)
	custom := nonNullMember(field, "customDeployment")
	if d.valid && (d.mode == configv1.HTTP01ChallengeProxyModeCustom) != (custom != nil) {
		place, remediation := custom, "delete customDeployment, or set mode: CustomDeployment"
		if custom == nil {
			place, remediation = field, "add customDeployment: {internalPort: "+misplacedPort(field)+"}"
		}
		r.rejectAt(file, place, form.path+": Invalid value: "+configv1.HTTP01ChallengeProxyUnionMessage, remediation)
	}
	d.port = config.DefaultInternalPort
	if custom != nil {
		d.port = r.readInternalPort(file, custom, form)
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

func (r *clusterReader) readMode(file string, field *yaml.Node, form proxyForm) (configv1.HTTP01ChallengeProxyMode, bool) {
	path, remediation := form.path+".mode", form.modeRemediation
	n := nonNullMember(field, "mode")
	switch {
	case n == nil && form.defaults:
		return configv1.HTTP01ChallengeProxyModeDefault, true
	case n == nil:
		r.rejectAt(file, field, path+": Required value", remediation)
		return "", false
	case jsonType(n) != "string":
		r.rejectType(file, n, path, "string", remediation)
		return "", false
	case !slices.Contains(form.modes, configv1.HTTP01ChallengeProxyMode(n.Value)):
		values := make([]string, 0, len(form.modes))
		for _, m := range form.modes {
			values = append(values, strconv.Quote(string(m)))
		}
		r.rejectAt(file, n, fmt.Sprintf("%s: Unsupported value: %.100q: supported values: %s", path, n.Value, strings.Join(values, ", ")), remediation)
		return "", false
	}
	return configv1.HTTP01ChallengeProxyMode(n.Value), true
}

func (r *clusterReader) readInternalPort(file string, custom *yaml.Node, form proxyForm) uint16 {
	path := form.path + ".customDeployment"
	portPath := path + ".internalPort"
	remediation := fmt.Sprintf("give a whole number from %d to %d", configv1.HTTP01ChallengeProxyMinInternalPort, configv1.HTTP01ChallengeProxyMaxInternalPort)
	if !r.requireObject(file, custom, path) {
		return 0
	}
	n := nonNullMember(custom, "internalPort")
	switch {
	case n == nil && form.defaults:
		return config.DefaultInternalPort
	case n == nil:
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
