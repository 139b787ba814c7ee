// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

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

// challengeProxyField is the field of the APIServer.
const challengeProxyField = "http01ChallengeProxy"

// ClusterObjects are objects of the cluster, as "oc get -o yaml" prints them. One file
// may be a List that contains several objects.
type ClusterObjects struct {
	APIServer, HTTP01Proxy *Input // one of the two provides the mode
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

func (p proxySettings) mode() string {
	if p.Mode == nil {
		return string(config.ModeDisabled)
	}
	return *p.Mode
}

func (p proxySettings) disabled() bool { return p.mode() == string(config.ModeDisabled) }

func (p proxySettings) port() int64 {
	if p.CustomDeployment == nil || p.CustomDeployment.InternalPort == nil {
		return config.DefaultInternalPort
	}
	return *p.CustomDeployment.InternalPort
}

func (c ClusterObjects) resolve() (w clusterSettings, err error) {
	kinds := map[string]string{kindAPIServer: configGroup, kindInfrastructure: configGroup, kindHTTP01Proxy: operatorGroup}
	remediation := `give the output of "oc get apiserver/cluster infrastructure/cluster -o yaml"`
	if c.HTTP01Proxy != nil {
		remediation = `give the output of "oc get http01proxies,infrastructures -A -o yaml"`
	}
	files := c.files()
	read, err := ReadObjects(files, kinds, remediation)
	if err != nil {
		return w, err
	}
	found := make(map[string]*ReadObject)
	for _, o := range read.Objects {
		switch {
		case found[o.Kind] != nil:
			return w, o.problem("", "a second "+o.Kind, "give one")
		case o.Name != singleton && (o.Kind != kindHTTP01Proxy || o.Name != operatorv1alpha1.NameDefault):
			return w, o.problem("metadata.name", fmt.Sprintf("%.100q is not the %s of the cluster", o.Name, o.Kind), remediation)
		}
		found[o.Kind] = &o
	}
	w.proxy, err = c.readProxy(found)
	if o := found[kindInfrastructure]; o != nil {
		err = errors.Join(err, w.readInfrastructure(*o))
	} else {
		err = errors.Join(err, problem(files[0].Name, "contains no "+kindInfrastructure,
			`give --infrastructure FILE (INFRASTRUCTURE=FILE of make) too, with the output of "oc get infrastructure `+
				`cluster -o yaml"`))
	}
	return w, err
}

// readProxy returns the settings of the one object that has them. Absent settings are more
// often a mistake than the wish to disable the proxy.
func (c ClusterObjects) readProxy(found map[string]*ReadObject) (p proxySettings, err error) {
	apiServer, object := found[kindAPIServer], found[kindHTTP01Proxy]
	if apiServer == nil && object == nil && c.HTTP01Proxy == nil {
		return p, problem(c.files()[0].Name, "contains no "+kindAPIServer+" and no "+kindHTTP01Proxy,
			"give a file that does, with --apiserver or --http01proxy (APISERVER or HTTP01PROXY of make)")
	}
	if apiServer != nil {
		if p, err = readSettings(*apiServer); err != nil {
			return p, err
		}
	}
	switch {
	case object != nil && p.Mode != nil:
		return p, object.problem("", fmt.Sprintf("the %s in %s also has the settings of the proxy", kindAPIServer, p.file),
			"remove spec."+challengeProxyField+" there, or this object")
	case object != nil:
		if p, err = readSettings(*object); err != nil {
			return p, err
		}
	case c.HTTP01Proxy != nil && p.Mode == nil:
		p = proxySettings{file: c.HTTP01Proxy.Name, absence: "contains no " + kindHTTP01Proxy}
	}
	if p.absence != "" && !c.AllowDisabled {
		return p, problem(p.file, p.absence+", which would disable the proxy",
			"give the object with its mode; to disable the proxy, give --allow-disabled (ALLOW_DISABLED=1 of make)")
	}
	return p, nil
}

// readSettings reads the settings of the proxy in an APIServer or an HTTP01Proxy. The
// configuration validates the values. Only these settings are decoded strictly: they are the
// API of this project, and an HTTP01Proxy may be a file that no API server has validated.
func readSettings(o ReadObject) (p proxySettings, err error) {
	var parsed struct {
		Spec json.RawMessage `json:"spec"`
	}
	var spec map[string]json.RawMessage
	if err := o.Load(&parsed); err != nil {
		return p, err
	}
	field, optional := o.field("spec", parsed.Spec), o.Kind == kindAPIServer
	if optional && !isAbsent(field.text) {
		if err := field.Load(&spec); err != nil {
			return p, err
		}
	}
	if optional {
		field = field.field(challengeProxyField, spec[challengeProxyField])
	}
	p.file = o.File
	switch {
	case o.Deleted:
		p.absence = "the " + o.Kind + " is being deleted"
		return p, nil
	case isAbsent(field.text) && optional:
		p.absence = field.path + " is absent"
		return p, nil
	case isAbsent(field.text):
		return p, field.problem("", "Required value", "write spec: {mode: DefaultDeployment}")
	}
	if err := field.loadStrict(&p); err != nil {
		return p, err
	}
	switch { // required in the APIServer; the HTTP01Proxy has defaults, and is deleted to disable the proxy
	case optional && p.Mode == nil:
		err = field.problem("mode", "Required value", `write DefaultDeployment, CustomDeployment, or "" to disable the proxy`)
	case optional && p.CustomDeployment != nil && p.CustomDeployment.InternalPort == nil:
		err = field.problem("customDeployment.internalPort", "Required value", "give a port")
	case p.Mode == nil:
		p.Mode = new(string(config.ModeDefault))
	case !optional && p.disabled():
		err = field.problem("mode", "is empty",
			"write DefaultDeployment or CustomDeployment; to disable the proxy, delete the object")
	}
	return p, err
}

// isAbsent reports whether a field is absent. Null counts as absent: the API server drops
// it.
func isAbsent(text json.RawMessage) bool { return len(text) == 0 || string(text) == "null" }

// settings returns the settings as keys of the configuration.
func (w clusterSettings) settings() []setting {
	all := []setting{{[]string{"mode"}, w.proxy.mode(), w.proxy.file}}
	if w.proxy.CustomDeployment != nil {
		all = append(all, setting{[]string{"customDeployment", "internalPort"}, w.proxy.port(), w.proxy.file})
	}
	if w.proxy.disabled() {
		return all
	}
	return append(all, w.vips.settings(w.vipsSource)...)
}

// note describes the settings in one line.
func (w clusterSettings) note() string {
	switch {
	case w.proxy.absence != "":
		return fmt.Sprintf("%s: %s: the configuration disables the proxy", w.proxy.file, w.proxy.absence)
	case w.proxy.disabled():
		return w.proxy.file + `: mode is "": the configuration disables the proxy`
	}
	note := fmt.Sprintf("%s: %s, port %d; %s: API VIP %s, ingress VIP %s", w.proxy.file, w.proxy.mode(), w.proxy.port(),
		w.vipsSource, strings.Join(w.vips.api, " and "), strings.Join(w.vips.ingress, " and "))
	if w.vips.management == string(config.ManagementBGP) {
		note += ", announced by BGP"
	}
	return note
}
