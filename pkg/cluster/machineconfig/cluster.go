// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	configv1 "github.com/http01-proxyd/http01-proxyd/pkg/apis/config/v1"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/servingcerts"
)

// ClusterObjects are objects of the cluster, as "oc get -o yaml" prints them. One file
// may be a List that contains several objects.
type ClusterObjects struct {
	APIServer, HTTP01Proxy *Input // one of both provides the mode
	Infrastructure         *Input // provides the VIPs
	// Strict rejects unknown fields. Otherwise they are left out with a warning.
	Strict bool
	// AllowDisabled accepts that no object has the settings of the proxy, which
	// disables it.
	AllowDisabled bool
}

// A givenFile is a file and the kind of object that it was given for.
type givenFile struct {
	in   *Input
	kind string
}

// files returns the files that were given.
func (c ClusterObjects) files() []givenFile {
	return slices.DeleteFunc([]givenFile{{c.APIServer, kindAPIServer}, {c.HTTP01Proxy, kindHTTP01Proxy}, {c.Infrastructure, kindInfrastructure}},
		func(f givenFile) bool { return f.in == nil })
}

// fileNames returns the names of the files, without their folders.
func (c ClusterObjects) fileNames() []string {
	var all []string
	for _, f := range c.files() {
		all = append(all, path.Base(f.in.Name))
	}
	return slices.Compact(all)
}

type clusterSettings struct {
	proxy challengeProxy
	vips  clusterVIPs
	apiDomain
	vipsSource    string // the file with the VIPs, for messages
	warnings      []string
	maybeMisspelt bool // the field is absent, but may be one of the unknown fields
}

func (w clusterSettings) absentMessage() string {
	return fmt.Sprintf("%s: %s: the configuration disables the proxy", w.proxy.file, w.proxy.absence)
}

func (c ClusterObjects) resolve() (clusterSettings, error) {
	r := clusterReader{strict: c.Strict}
	found, valid := r.readObjects(c)
	infrastructure := found[kindInfrastructure]
	var w clusterSettings
	if valid || found[kindAPIServer] != nil || found[kindHTTP01Proxy] != nil {
		w.proxy = r.readProxy(c, found)
	}
	// An invalid file may contain the HTTP01Proxy.
	if w.proxy.absence != "" && !c.AllowDisabled && (valid || c.HTTP01Proxy == nil) {
		r.rejectAbsence(w.proxy)
	}
	if apiServer := found[kindAPIServer]; apiServer != nil {
		for _, hint := range servingcerts.NamedCertificateHints(readNamedCertificates(*apiServer)) {
			w.warnings = append(w.warnings, apiServer.file+": "+hint.String())
		}
	}
	// A disabled proxy needs no VIPs. So disabling works on every platform.
	if infrastructure != nil && !w.proxy.disabled() {
		w.vips, w.vipsSource = r.readVIPs(*infrastructure), infrastructure.file
	}
	if infrastructure != nil {
		w.apiDomain = readDomain(*infrastructure)
	}
	for _, unknown := range r.warnings {
		w.warnings = append(w.warnings, unknown.String())
	}
	if owner := openShiftPorts()[w.proxy.port]; owner != "" && !w.proxy.disabled() {
		w.warnings = append(w.warnings, fmt.Sprintf("%s: port %d is used by OpenShift's %s: hosts where it listens report PortInUse", w.proxy.file, w.proxy.port, owner))
	}
	w.maybeMisspelt = w.proxy.absence == challengeProxyAbsent && slices.ContainsFunc(r.warnings, func(unknown warning) bool { return strings.HasPrefix(unknown.where, w.proxy.file+":") })
	if w.maybeMisspelt {
		w.warnings = append(w.warnings, w.absentMessage()+"; it may be one of the unknown fields that were left out")
	}
	return w, r.joinedProblems()
}

// openShiftPorts maps the ports of OpenShift on control-plane nodes that an
// administrator might choose to their owners.
func openShiftPorts() map[uint16]string {
	return map[uint16]string{
		2379: "etcd", 2380: "etcd", 6443: "API server", 10250: "kubelet",
		10257: "controller manager", 10259: "scheduler", 22623: "machine-config server", 22624: "machine-config server",
	}
}

// edits returns the edits that put the settings into a configuration. They replace the
// values of the default configuration.
func (w clusterSettings) edits() configEdits {
	// The comments name the object that readers of the file on a host must change.
	const vipsFrom = "from the " + kindInfrastructure + " " + singleton + ", " + platformPath
	modeFrom := "from the " + w.proxy.object
	if w.proxy.absence != "" {
		modeFrom += ", which is absent"
	}
	c := configEdits{{keys: modeKeys(), value: string(w.proxy.mode), tag: "!!str", replace: true, comment: modeFrom}}
	if w.proxy.mode == configv1.HTTP01ChallengeProxyModeCustom {
		c = append(c, configEdit{keys: []string{"customDeployment", "internalPort"}, value: strconv.Itoa(int(w.proxy.port)), tag: "!!int", replace: true, comment: modeFrom})
	}
	if w.vips.bgp {
		c = append(c, configEdit{keys: managementKeys(), value: managedByBGP, tag: "!!str", replace: true, comment: vipsFrom})
	}
	if !w.proxy.disabled() {
		c = append(
			c,
			configEdit{keys: []string{"vips", "api"}, list: addrStrings(w.vips.api), replace: true, comment: vipsFrom},
			configEdit{keys: []string{"vips", "ingress"}, list: addrStrings(w.vips.ingress), replace: true, comment: vipsFrom},
		)
	}
	return c
}

func modeKeys() []string { return []string{"mode"} }

func managementKeys() []string { return []string{"vips", "management"} }

// checkConflicts rejects keys of the administrator's configuration that the objects
// also set: it would be unclear which value applies.
func (w clusterSettings) checkConflicts(configuration Input) error {
	root, _ := parseMapping(configuration.Text)
	var problems []error
	reject := func(keys []string, source string, evenBlank bool) {
		if at := nodeAt(root, keys); at != nil && (evenBlank || !isBlank(at)) {
			problems = append(problems, conflictProblem(configuration.Name, keys, at, source))
		}
	}
	vipsFrom := cmp.Or(w.vipsSource, w.proxy.file)
	reject(modeKeys(), w.proxy.file, true) // an empty mode disables the proxy
	reject([]string{"customDeployment"}, w.proxy.file, false)
	reject(managementKeys(), vipsFrom, false)
	reject([]string{"vips", "api"}, vipsFrom, false)
	reject([]string{"vips", "ingress"}, vipsFrom, false)
	return errors.Join(problems...)
}

func (w clusterSettings) notes() []string {
	switch {
	case w.maybeMisspelt:
		return nil // a warning is printed
	case w.proxy.absence != "":
		return []string{w.absentMessage()}
	case w.proxy.disabled():
		return []string{fmt.Sprintf("%s: %s.mode is \"\": the configuration disables the proxy", w.proxy.file, challengeProxyField)}
	}
	from := ""
	if w.vipsSource != w.proxy.file {
		from = w.vipsSource + ": "
	}
	notes := []string{fmt.Sprintf("%s: %s, port %d; %sAPI VIP %s, ingress VIP %s", w.proxy.file, w.proxy.mode, w.proxy.port,
		from, strings.Join(addrStrings(w.vips.api), " and "), strings.Join(addrStrings(w.vips.ingress), " and "))}
	if w.vips.bgp {
		notes[0] += ", announced by BGP"
	}
	shared := slices.DeleteFunc(slices.Clone(w.vips.api), func(a netip.Addr) bool { return !slices.Contains(w.vips.ingress, a) })
	switch {
	case len(shared) == 0:
	case len(shared) == len(w.vips.api):
		notes = append(notes, fmt.Sprintf("%s: API and ingress share %s, where the routers already use port 80: hosts report NotRequired", w.vipsSource, strings.Join(addrStrings(shared), " and ")))
	default:
		notes = append(notes, fmt.Sprintf("%s: API and ingress share %s, where the routers already use port 80: hosts do not redirect it", w.vipsSource, shared[0]))
	}
	return notes
}

func addrStrings(all []netip.Addr) []string {
	out := make([]string, len(all))
	for i, a := range all {
		out[i] = a.String()
	}
	return out
}

// readNamedCertificates returns the certificates of the API server. Their form is not
// validated: entries of another form have no names.
func readNamedCertificates(o clusterObject) (all []servingcerts.NamedCertificate) {
	entries := nodeAt(o.node, strings.Split(servingcerts.NamedCertificatesPath, "."))
	if entries == nil || entries.Kind != yaml.SequenceNode {
		return nil
	}
	for _, entry := range entries.Content {
		var one servingcerts.NamedCertificate
		if names := member(entry, "names"); names != nil && names.Kind == yaml.SequenceNode {
			for _, name := range names.Content {
				one.Names = append(one.Names, stringValue(name))
			}
		}
		all = append(all, one)
	}
	return all
}

// apiServerURLPath is the field of an Infrastructure with the API's URL for external
// clients, https://api.<domain>:6443.
const apiServerURLPath = "status.apiServerURL"

// apiDomain is the domain of a cluster, and the file that contains it. The zero value
// means unknown.
type apiDomain struct{ name, file string }

// readDomain derives the domain from the URL of the API. A URL of another form than the
// installer's gives no domain.
func readDomain(o clusterObject) apiDomain {
	at := nodeAt(o.node, strings.Split(apiServerURLPath, "."))
	if at == nil {
		return apiDomain{}
	}
	u, err := url.Parse(stringValue(at))
	if err != nil {
		return apiDomain{}
	}
	name, is := strings.CutPrefix(strings.ToLower(u.Hostname()), "api.")
	if !is || !isClusterDomain(name) {
		return apiDomain{}
	}
	return apiDomain{name, o.file}
}
