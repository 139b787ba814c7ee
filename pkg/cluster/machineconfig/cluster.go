// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	configv1 "github.com/http01-proxyd/http01-proxyd/pkg/apis/config/v1"
	operatorv1alpha1 "github.com/http01-proxyd/http01-proxyd/pkg/apis/operator/v1alpha1"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

const (
	configGroup        = "config.openshift.io/v1"
	operatorGroup      = "operator.openshift.io/v1alpha1"
	kindAPIServer      = "APIServer"
	kindHTTP01Proxy    = "HTTP01Proxy"
	kindInfrastructure = "Infrastructure"
	singleton          = "cluster" // the name of the platform's objects
)

// The field of the APIServer.
const (
	challengeProxyField  = "spec.http01ChallengeProxy"
	challengeProxyAbsent = challengeProxyField + " is absent"
)

// ClusterObjects are objects of the cluster, as "oc get -o yaml" prints them. One file
// may be a List that contains several objects.
type ClusterObjects struct {
	APIServer, HTTP01Proxy *Input // one of both provides the mode
	Infrastructure         *Input // provides the VIPs
	// AllowDisabled accepts that no object has the settings of the proxy, which
	// disables it.
	AllowDisabled bool
}

// files returns the files that were given, each once: a file may have several names.
func (c ClusterObjects) files() (all []Input) {
	for _, in := range []*Input{c.APIServer, c.HTTP01Proxy, c.Infrastructure} {
		if in != nil && !slices.ContainsFunc(all, func(other Input) bool { return bytes.Equal(other.Text, in.Text) }) {
			all = append(all, *in)
		}
	}
	return all
}

// fileNames returns the names of the files, without their folders.
func (c ClusterObjects) fileNames() (all []string) {
	for _, in := range c.files() {
		all = append(all, path.Base(in.Name))
	}
	return all
}

// clusterSettings are the settings in the objects of a cluster.
type clusterSettings struct {
	proxy      proxySettings
	vips       clusterVIPs
	domain     string // of the cluster; empty: not known
	vipsSource string // the file with the VIPs and the domain
}

// proxySettings are the settings of the proxy, of the APIServer or an HTTP01Proxy.
type proxySettings struct {
	Mode             *string `json:"mode"`
	CustomDeployment *struct {
		InternalPort *int64 `json:"internalPort"`
	} `json:"customDeployment"`

	file    string // the file with the object, for messages
	absence string // why there are no settings, which disables the proxy; empty: they are present
}

func (p proxySettings) disabled() bool {
	return p.absence != "" || p.mode() == string(config.ModeDisabled)
}

func (p proxySettings) mode() string {
	if p.Mode == nil || p.absence != "" {
		return string(config.ModeDisabled)
	}
	return *p.Mode
}

func (p proxySettings) port() int64 {
	if p.CustomDeployment == nil || p.CustomDeployment.InternalPort == nil {
		return config.DefaultInternalPort
	}
	return *p.CustomDeployment.InternalPort
}

// settings returns the settings as keys of the configuration.
func (p proxySettings) settings() []setting {
	all := []setting{{[]string{"mode"}, p.mode(), p.file}}
	if p.CustomDeployment != nil && p.absence == "" {
		all = append(all, setting{[]string{"customDeployment", "internalPort"}, p.port(), p.file})
	}
	return all
}

func (p proxySettings) absenceMessage() string {
	return fmt.Sprintf("%s: %s: the configuration disables the proxy", p.file, p.absence)
}

func (c ClusterObjects) resolve() (clusterSettings, error) {
	kinds := map[string]string{kindAPIServer: configGroup, kindInfrastructure: configGroup, kindHTTP01Proxy: operatorGroup}
	files := c.files()
	read, err := ReadObjects(files, kinds, objectRemediation(c))
	if err != nil {
		return clusterSettings{}, err
	}
	found := make(map[string]*ReadObject)
	var problems []error
	for _, o := range read.Objects {
		names := []string{singleton}
		if o.Kind == kindHTTP01Proxy {
			names = []string{operatorv1alpha1.NameCluster, operatorv1alpha1.NameDefault}
		}
		switch {
		case found[o.Kind] != nil:
			problems = append(problems, o.problem("", "a second "+o.Kind, "give one"))
		case !slices.Contains(names, o.Name):
			problems = append(problems,
				o.problem("metadata.name", fmt.Sprintf("%.100q, but a cluster has only the %s %q", o.Name, o.Kind, names),
					"export the object of the cluster"))
		}
		found[o.Kind] = &o
	}
	var w clusterSettings
	w.proxy, err = c.readProxy(found)
	problems = append(problems, err)
	if o := found[kindInfrastructure]; o != nil {
		problems = append(problems, w.readInfrastructure(*o))
	} else {
		const remediation = "give --infrastructure FILE (INFRASTRUCTURE=FILE of make) too, with the output of \"oc get " +
			"infrastructure cluster -o yaml\""
		problems = append(problems, problem(files[0].Name, "contains no "+kindInfrastructure, remediation))
	}
	return w, joinProblems(problems)
}

func objectRemediation(c ClusterObjects) string {
	switch {
	case c.HTTP01Proxy != nil:
		return `give the output of "oc get http01proxies,infrastructures -A -o yaml"`
	default:
		return `give the output of "oc get apiserver/cluster infrastructure/cluster -o yaml"`
	}
}

// readProxy returns the settings of the one object that has them. Absent settings are more
// often a mistake than the wish to disable the proxy.
func (c ClusterObjects) readProxy(found map[string]*ReadObject) (p proxySettings, err error) {
	apiServer, object := found[kindAPIServer], found[kindHTTP01Proxy]
	switch {
	case apiServer == nil && object == nil && c.HTTP01Proxy == nil:
		const remediation = "give a file that does, with --apiserver or --http01proxy (APISERVER or HTTP01PROXY of make)"
		return p, problem(c.files()[0].Name, "contains no "+kindAPIServer+" and no "+kindHTTP01Proxy, remediation)
	case apiServer != nil:
		if p, err = readChallengeProxy(*apiServer); err != nil {
			return p, err
		}
	}
	switch {
	case object != nil && apiServer != nil && p.absence == "":
		message := fmt.Sprintf("the %s in %s also has the settings of the proxy", kindAPIServer, apiServer.File)
		return p, object.problem("", message, "remove "+challengeProxyField+" there, or this object")
	case object != nil:
		if p, err = readHTTP01Proxy(*object); err != nil {
			return p, err
		}
	case c.HTTP01Proxy != nil && (apiServer == nil || p.absence != ""):
		p = proxySettings{file: c.HTTP01Proxy.Name, absence: "contains no " + kindHTTP01Proxy}
	}
	if p.absence != "" && !c.AllowDisabled {
		const remediation = "give the object with its mode; to disable the proxy, give --allow-disabled " +
			"(ALLOW_DISABLED=1 of make)"
		return p, problem(p.file, p.absence+", which would disable the proxy", remediation)
	}
	return p, nil
}

func readChallengeProxy(o ReadObject) (proxySettings, error) {
	var parsed struct {
		Spec struct {
			Proxy json.RawMessage `json:"http01ChallengeProxy"`
		} `json:"spec"`
	}
	if err := o.Load(&parsed); err != nil {
		return proxySettings{}, err
	}
	if isAbsent(parsed.Spec.Proxy) {
		return proxySettings{file: o.File, absence: challengeProxyAbsent}, nil
	}
	field := o.field(challengeProxyField, parsed.Spec.Proxy)
	p, err := readSettings(field)
	if err == nil && p.Mode == nil {
		err = field.problem("mode", "Required value", `write DefaultDeployment, CustomDeployment, or "" to disable the proxy`)
	}
	if err != nil {
		return p, err
	}
	return p, checkValues(field, p.settings())
}

func readHTTP01Proxy(o ReadObject) (proxySettings, error) {
	if o.Deleted {
		return proxySettings{file: o.File, absence: "the " + kindHTTP01Proxy + " is being deleted"}, nil
	}
	var parsed struct {
		Spec json.RawMessage `json:"spec"`
	}
	if err := o.Load(&parsed); err != nil {
		return proxySettings{}, err
	}
	if isAbsent(parsed.Spec) {
		return proxySettings{}, o.problem("spec", "Required value", "write spec: {mode: DefaultDeployment}")
	}
	field := o.field("spec", parsed.Spec)
	p, err := readSettings(field)
	if err != nil {
		return p, err
	}
	if p.Mode != nil && *p.Mode == string(config.ModeDisabled) {
		return p, field.problem("mode", "is empty",
			"write DefaultDeployment or CustomDeployment; to disable the proxy, delete the object")
	}
	if p.Mode == nil { // the defaults of the CRD
		p.Mode = new(string(config.ModeDefault))
	}
	return p, checkValues(field, p.settings())
}

// readSettings decodes the settings of the proxy, the API of this project.
func readSettings(field ReadObject) (proxySettings, error) {
	p := proxySettings{file: field.File}
	err := field.loadStrict(&p)
	if err == nil && p.CustomDeployment != nil && p.CustomDeployment.InternalPort == nil {
		if field.Kind == kindAPIServer {
			err = field.problem("customDeployment.internalPort", "Required value",
				fmt.Sprintf("give a whole number from %d to %d", configv1.HTTP01ChallengeProxyMinInternalPort,
					configv1.HTTP01ChallengeProxyMaxInternalPort))
		}
	}
	return p, err
}

// isAbsent reports whether a field is absent. Null counts as absent: the API server drops
// it.
func isAbsent(text json.RawMessage) bool { return len(text) == 0 || string(text) == "null" }

// settings returns the settings as keys of the configuration.
func (w clusterSettings) settings() []setting {
	all := w.proxy.settings()
	if w.proxy.disabled() {
		return all
	}
	return append(all, w.vips.settings(w.vipsSource)...)
}

func (w clusterSettings) notes() []string {
	switch {
	case w.proxy.absence != "":
		return []string{w.proxy.absenceMessage()}
	case w.proxy.disabled():
		return []string{
			fmt.Sprintf("%s: %s.mode is \"\": the configuration disables the proxy", w.proxy.file, challengeProxyField),
		}
	}
	from := ""
	if w.vipsSource != w.proxy.file {
		from = w.vipsSource + ": "
	}
	api, ingress := w.vips.api, w.vips.ingress
	notes := []string{
		fmt.Sprintf("%s: %s, port %d; %sAPI VIP %s, ingress VIP %s", w.proxy.file, w.proxy.mode(), w.proxy.port(), from,
			strings.Join(api, " and "), strings.Join(ingress, " and ")),
	}
	if w.vips.bgp {
		notes[0] += ", announced by BGP"
	}
	shared := slices.DeleteFunc(slices.Clone(api), func(a string) bool { return !slices.Contains(ingress, a) })
	if len(shared) > 0 {
		result := "hosts do not redirect it"
		if len(shared) == len(api) {
			result = "hosts report NotRequired"
		}
		notes = append(notes,
			fmt.Sprintf("%s: API and ingress share %s, where the routers already use port 80: %s", w.vipsSource,
				strings.Join(shared, " and "), result))
	}
	return notes
}
