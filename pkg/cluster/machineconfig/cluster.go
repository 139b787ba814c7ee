// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	configv1 "github.com/http01-proxyd/http01-proxyd/pkg/apis/config/v1"
)

// Cluster is what the cluster's own objects ask for, as "oc get -o yaml" prints
// them. Either file may be a List that holds both, and is then enough.
type Cluster struct {
	APIServer, Infrastructure *Input
	// Strict refuses unknown fields, of which a warning tells otherwise.
	Strict bool
}

// names are those of the files, without their folders.
func (c Cluster) names() []string {
	var all []string
	for _, in := range []*Input{c.APIServer, c.Infrastructure} {
		if in != nil {
			all = append(all, path.Base(in.Name))
		}
	}
	return slices.Compact(all)
}

// wanted is what both objects say together.
type wanted struct {
	door door
	vips vips
	apiDomain
	source   string // where the mode is from, in messages
	vipsFrom string
	warnings []string
	missed   bool // the field is absent, and one of the unknown ones may be it
}

// absent says what comes of an object without the field.
func (w wanted) absent() string {
	return fmt.Sprintf("%s: %s is absent: the configuration disables the front door", w.source, doorField)
}

// settle judges the objects.
func (c Cluster) settle() (wanted, error) {
	r := clusterReader{strict: c.Strict}
	apiServer, infrastructure := r.objects(c)
	var w wanted
	if apiServer != nil {
		w.door, w.source = r.door(*apiServer), apiServer.file
	}
	// Disabling needs no VIPs, and so works on every platform.
	if infrastructure != nil && !w.door.disabled() {
		w.vips, w.vipsFrom = r.vips(*infrastructure), infrastructure.file
	}
	if infrastructure != nil {
		w.apiDomain = domainOf(*infrastructure)
	}
	for _, left := range r.warnings {
		w.warnings = append(w.warnings, left.String())
	}
	if owner := portOwners()[w.door.port]; owner != "" && !w.door.disabled() {
		w.warnings = append(w.warnings, fmt.Sprintf("%s: port %d is that of OpenShift's %s: hosts where it listens say PortInUse", w.source, w.door.port, owner))
	}
	w.missed = apiServer != nil && !w.door.given && slices.ContainsFunc(r.warnings, func(left warning) bool { return strings.HasPrefix(left.where, apiServer.file+":") })
	if w.missed {
		w.warnings = append(w.warnings, w.absent()+"; is it one of the unknown fields that were left out?")
	}
	return w, r.error()
}

// portOwners are those of OpenShift's own ports on masters that an admin may come upon.
func portOwners() map[uint16]string {
	return map[uint16]string{
		2379: "etcd", 2380: "etcd", 6443: "API server", 10250: "kubelet",
		10257: "controller manager", 10259: "scheduler", 22623: "machine-config server", 22624: "machine-config server",
	}
}

// changes put it into a configuration, in place of what the sources' own one says.
func (w wanted) changes() changes {
	// Whoever reads the file on a host is to know where to change it.
	const doorFrom, vipsFrom = "from the " + kindAPIServer + " " + singleton + ", " + doorField, "from the " + kindInfrastructure + " " + singleton + ", " + platformPath
	c := changes{{keys: modeKeys(), text: string(w.door.mode), tag: "!!str", replace: true, comment: doorFrom}}
	if !w.door.given {
		c[0].comment += ", which is absent"
	}
	if w.door.mode == configv1.HTTP01ChallengeProxyModeCustom {
		c = append(c, change{keys: []string{"customDeployment", "internalPort"}, text: strconv.Itoa(int(w.door.port)), tag: "!!int", replace: true, comment: doorFrom})
	}
	if !w.door.disabled() {
		c = append(
			c,
			change{keys: []string{"vips", "api"}, list: texts(w.vips.api), replace: true, comment: vipsFrom},
			change{keys: []string{"vips", "ingress"}, list: texts(w.vips.ingress), replace: true, comment: vipsFrom},
		)
	}
	return c
}

func modeKeys() []string { return []string{"mode"} }

// besides refuses what an admin's configuration says of what the objects give: it
// would be unclear which of the two counts.
func (w wanted) besides(configuration Input) error {
	root, _ := load(configuration.Text)
	var problems []error
	refuse := func(keys []string, source string, also bool) {
		if at := find(root, keys); at != nil && (also || !blank(at)) {
			problems = append(problems, beside(configuration.Name, keys, at, source))
		}
	}
	vipsFrom := w.vipsFrom
	if vipsFrom == "" {
		vipsFrom = w.source
	}
	refuse(modeKeys(), w.source, true) // an empty one disables
	refuse([]string{"customDeployment"}, w.source, false)
	refuse([]string{"vips", "api"}, vipsFrom, false)
	refuse([]string{"vips", "ingress"}, vipsFrom, false)
	return errors.Join(problems...)
}

// notes say what comes of it.
func (w wanted) notes() []string {
	const field = doorField
	switch {
	case w.missed:
		return nil // a warning says it
	case !w.door.given:
		return []string{w.absent()}
	case w.door.disabled():
		return []string{fmt.Sprintf("%s: %s.mode is \"\": the configuration disables the front door", w.source, field)}
	}
	from := ""
	if w.vipsFrom != w.source {
		from = w.vipsFrom + ": "
	}
	notes := []string{fmt.Sprintf("%s: %s, port %d; %sAPI VIP %s, ingress VIP %s", w.source, w.door.mode, w.door.port,
		from, strings.Join(texts(w.vips.api), " and "), strings.Join(texts(w.vips.ingress), " and "))}
	shared := slices.DeleteFunc(slices.Clone(w.vips.api), func(a netip.Addr) bool { return !slices.Contains(w.vips.ingress, a) })
	switch {
	case len(shared) == 0:
	case len(shared) == len(w.vips.api):
		notes = append(notes, fmt.Sprintf("%s: API and ingress share %s, whose port 80 is the routers' already: hosts do nothing and say NotRequired", w.vipsFrom, strings.Join(texts(shared), " and ")))
	default:
		notes = append(notes, fmt.Sprintf("%s: API and ingress share %s, whose port 80 is the routers' already: hosts leave it alone", w.vipsFrom, shared[0]))
	}
	return notes
}

func texts(all []netip.Addr) []string {
	out := make([]string, len(all))
	for i, a := range all {
		out[i] = a.String()
	}
	return out
}
