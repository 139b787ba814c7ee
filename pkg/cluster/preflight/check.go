// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/docurl"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/chain"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/disruption"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	roleLabel     = "machineconfiguration.openshift.io/role"
	installerUnit = "http01-proxyd-install.service"
	// dnatConfig is the MachineConfig of cert-manager-operator's HTTP01Proxy (pull
	// request 459).
	dnatConfig = "98-nftables-crtmgr-http01-dnat"
	// layeringRelease is the first 4.x release in which changes of files and units of a
	// pool with a MachineOSConfig follow the policy (the machine-config-operator's
	// pkg/daemon/update.go, updateOnClusterLayering).
	layeringRelease = 20
	// compressionRelease is the first 4.x release that merges a plain file over a compressed
	// one (its pkg/controller/common/helpers.go, MergeMachineConfigs).
	compressionRelease = 20
	// maxPolicyEntries is the largest number of files, and of units, in a policy (openshift/api's
	// operator/v1/types_machineconfiguration.go).
	maxPolicyEntries = 50
)

// Check reports why a change of the MachineConfigs of a pool would drain or reboot its
// nodes, or not arrive there.
func Check(o Objects, poolName string) report.Preflight {
	c := checker{objects: o, pool: poolName, report: report.Preflight{
		Header: report.NewHeader("Preflight"), Pool: poolName, Release: o.version.release(),
		Examined: []string{}, NotExamined: []string{}, Findings: []report.PreflightFinding{},
	}}
	c.ours = slices.DeleteFunc(slices.Clone(o.configs), func(m machineConfig) bool { return !c.isOwn(m) })
	c.checkPolicy()
	c.checkPool()
	c.checkLayering()
	c.checkOwners()
	c.checkOthers()
	c.checkNames()
	c.conclude()
	return c.report
}

type checker struct {
	objects Objects
	pool    string
	ours    []machineConfig // MachineConfigs of this service, rendered or in the cluster
	stream  string          // of OS images, which the pool names; empty: the default of the cluster
	report  report.Preflight
	levels  []string // of the findings
}

// find adds a finding. It merges equal findings of several objects.
func (c *checker) find(id findings.ID, values findings.Values) {
	c.add(findings.New(id, values.With("policy", c.objects.policyFolder).With("pool", c.pool)))
}

func (c *checker) add(f findings.Finding) {
	equal := func(other report.PreflightFinding) bool {
		return other.ID == string(f.ID) && other.Message == f.Message
	}
	if !slices.ContainsFunc(c.report.Findings, equal) {
		c.levels = append(c.levels, string(f.Level))
		c.report.Findings = append(c.report.Findings, report.PreflightFinding{
			ID: string(f.ID), Level: string(f.Level), Message: f.Message, Remediation: f.Remediation, Commands: f.Commands,
		})
	}
}

func (c *checker) examined(format string, args ...any) {
	c.report.Examined = append(c.report.Examined, fmt.Sprintf(format, args...))
}

func (c *checker) notExamined(format string, args ...any) {
	c.report.NotExamined = append(c.report.NotExamined, fmt.Sprintf(format, args...))
}

func (c *checker) isOwn(m machineConfig) bool {
	return m.Metadata.Name == "98-"+c.pool+"-http01-proxyd" || m.Metadata.Name == "98-"+c.pool+"-http01-proxyd-config"
}

// required returns the policy that the MachineConfigs need.
func (c *checker) required() disruption.Policy {
	if c.objects.rendered != nil {
		c.examined("the rendered policy")
		return c.objects.rendered.Spec.Policy
	}
	// The units show whether there is an installer. An overlay contains only the configuration.
	keys := c.ownKeys()
	if slices.ContainsFunc(keys, isUnit) && !slices.Contains(keys, installerUnit) {
		return disruption.LayeredPolicy()
	}
	return disruption.InstallerPolicy()
}

// ownKeys returns the files and units of this service.
func (c *checker) ownKeys() (all []string) {
	for _, m := range c.ours {
		all = append(all, m.keys()...)
	}
	return slices.DeleteFunc(all, isForeign)
}

// isForeign reports whether a file or unit belongs to somebody else: our names contain the name of
// the service.
func isForeign(key string) bool { return !strings.Contains(key, "http01-proxyd") }

// checkOwners looks for MachineConfigs of somebody else with our names.
func (c *checker) checkOwners() {
	for _, m := range c.ours {
		foreign := slices.DeleteFunc(m.keys(), func(key string) bool { return !isForeign(key) })
		if foreign = append(foreign, m.otherFields()...); len(foreign) > 0 {
			c.find(findings.MachineConfigNameTaken, findings.Values{"config": m.Metadata.Name, "shared": join(foreign)})
		}
	}
}

func isUnit(key string) bool { return !strings.HasPrefix(key, "/") }

// checkPolicy compares the active policy with the entries that the MachineConfigs need.
func (c *checker) checkPolicy() {
	live := c.objects.live
	required := c.required()
	if live == nil {
		c.notExamined(`the node disruption policy: give the output of "oc get machineconfiguration cluster -o yaml"`)
		return
	}
	c.examined("MachineConfiguration cluster")
	var active disruption.Policy
	var observed int64
	if live.Status != nil {
		active, observed = live.Status.PolicyStatus.Policies, live.Status.ObservedGeneration
	}
	spec := live.Spec.Policy
	keys := c.contents(required)
	entries := map[findings.ID][]string{}
	add := func(id findings.ID, key string) { entries[id] = append(entries[id], key) }
	for _, key := range keys {
		want, _ := required.Entry(key)
		got, found := active.Entry(key)
		switch _, inSpec := spec.Entry(key); {
		case !inSpec && (!found || observed != live.Metadata.Generation): // it is not active, or not for long
			add(findings.PolicyEntriesMissing, cmp.Or(want.Key(), key))
		case !found:
			add(findings.PolicyNotObserved, cmp.Or(want.Key(), key))
		case got.Reboots():
			add(findings.PolicyEntriesReboot, got.Key())
		case want.Key() != "" && !slices.Equal(want.Actions, got.Actions):
			add(findings.PolicyEntriesDiffer, got.Key())
		}
	}
	// First, because apply.sh cannot add missing entries to a full list.
	c.checkNumber("files", required.Files, spec.Files)
	c.checkNumber("units", required.Units, spec.Units)
	for _, id := range []findings.ID{
		findings.PolicyEntriesMissing, findings.PolicyEntriesReboot, findings.PolicyEntriesDiffer,
	} {
		if len(entries[id]) > 0 {
			c.find(id, findings.Values{"entries": join(entries[id])})
		}
	}
	if dropped := required.Uncovered(keys); c.objects.rendered != nil && len(dropped) > 0 {
		c.find(findings.PolicyDropsEntries, findings.Values{"entries": join(dropped)})
	}
	switch {
	case observed != live.Metadata.Generation:
		state := fmt.Sprintf("it has observed the generation %d of %d", observed, live.Metadata.Generation)
		c.find(findings.PolicyNotObserved, findings.Values{"state": state})
	case len(entries[findings.PolicyNotObserved]) > 0:
		state := "the active policy contains no entry for " + join(entries[findings.PolicyNotObserved])
		c.find(findings.PolicyNotObserved, findings.Values{"state": state})
	}
}

// checkNumber looks for a list of the policy that would be too long.
func (c *checker) checkNumber(list string, required, present []disruption.Entry) {
	count := len(present)
	for _, e := range required {
		if !slices.ContainsFunc(present, func(p disruption.Entry) bool { return p.Key() == e.Key() }) {
			count++
		}
	}
	if count > maxPolicyEntries {
		c.find(findings.PolicyTooManyEntries, findings.Values{
			"field": "spec.nodeDisruptionPolicy." + list, "count": strconv.Itoa(count), "limit": strconv.Itoa(maxPolicyEntries),
		})
	}
}

// contents returns the files and units whose changes the policy must cover, from the entries
// and from the MachineConfigs.
func (c *checker) contents(required disruption.Policy) (keys []string) {
	for _, e := range slices.Concat(required.Files, required.Units) {
		keys = append(keys, e.Key())
	}
	layered := len(required.Units) == 0 // a change of a unit comes with another image
	return append(keys, slices.DeleteFunc(c.ownKeys(), func(key string) bool { return layered && isUnit(key) })...)
}

func (c *checker) checkPool() {
	i := slices.IndexFunc(c.objects.pools, func(p pool) bool { return p.Metadata.Name == c.pool })
	if i < 0 {
		c.notExamined(`the pool: give the output of "oc get mcp %s -o yaml"`, c.pool)
		return
	}
	c.examined("MachineConfigPool %s", c.pool)
	p := c.objects.pools[i]
	c.stream = p.Spec.OSImageStream.Name
	if p.Spec.Paused {
		c.find(findings.PoolPaused, findings.Values{})
	}
	degraded, message := false, ""
	for _, condition := range p.Status.Conditions {
		if condition.Status == "True" && strings.HasSuffix(condition.Type, "Degraded") {
			degraded, message = true, cmp.Or(message, strings.TrimSpace(condition.Message))
		}
	}
	if degraded {
		reason := cmp.Or(strings.TrimSuffix(message, "."), "the condition has no message")
		c.find(findings.PoolDegraded, findings.Values{"reason": reason})
	}
}

func (c *checker) checkLayering() {
	minor, known := minorRelease(c.report.Release)
	if known && minor >= layeringRelease {
		c.examined("OpenShift %s reboots no node for files and units with an entry in the policy, "+
			"with or without a MachineOSConfig", c.report.Release)
		return
	}
	i := slices.IndexFunc(c.objects.layered, func(l layeredPool) bool { return l.Spec.Pool.Name == c.pool })
	switch {
	case i < 0 && !c.objects.layeredKnown:
		c.notExamined(`MachineOSConfigs: give the output of "oc get machineosconfig -o yaml"`)
	case i < 0:
		c.examined("no MachineOSConfig of the pool")
	default:
		name := c.objects.layered[i].Metadata.Name
		c.find(findings.PoolLayered, findings.Values{"config": name, "release": c.release()})
	}
}

// minorRelease returns the 18 of 4.18.3. Releases from 5.0 count as later than all of 4.
func minorRelease(release string) (minor int, known bool) {
	var major int
	_, err := fmt.Sscanf(release, "%d.%d.", &major, &minor)
	return minor + 100*(major-4), err == nil
}

// checkOthers looks for MachineConfigs of others with our files and units.
func (c *checker) checkOthers() {
	var others []machineConfig
	for _, m := range c.objects.configs {
		role := m.Metadata.Labels[roleLabel]
		if m.Metadata.Name == dnatConfig {
			c.find(findings.DNATMachineConfig, findings.Values{"config": dnatConfig})
		}
		// A custom pool also gets the MachineConfigs of the workers.
		if !c.isOwn(m) && (role == c.pool || role == "worker" && c.pool != machineconfig.DefaultPool) {
			others = append(others, m)
		}
	}
	if len(others) == 0 {
		c.notExamined(`other MachineConfigs: give the output of "oc get mc --selector=%s=%s -o yaml"`, roleLabel, c.pool)
		return
	}
	for _, m := range others {
		c.checkOverlap(m)
		// The machine-config-operator's pkg/controller/render/render_controller.go,
		// generateRenderedMachineConfig. 4.21 ignores the stream instead.
		if m.Spec.OSImageURL != "" && c.stream != "" {
			c.find(findings.OSImageWithStream, findings.Values{"config": m.Metadata.Name, "stream": c.stream})
		}
	}
	c.examined("%d MachineConfigs of others, %d of this service", countNames(others), countNames(c.ours))
}

// checkOverlap looks for files and units of this service in a MachineConfig of somebody else.
func (c *checker) checkOverlap(other machineConfig) {
	name := other.Metadata.Name
	overlaps := func(shared []string, precedence string) {
		if len(shared) > 0 {
			c.find(findings.MachineConfigOverlaps, findings.Values{
				"config": name, "shared": join(shared), "precedence": precedence,
			})
		}
	}
	rest := c.sharedWith(other)
	for _, own := range c.ours {
		shared := intersect(own.keys(), other.keys())
		rest = slices.DeleteFunc(rest, func(key string) bool { return slices.Contains(shared, key) })
		first, last := own, other
		if mergedLater(own, other) {
			first, last = other, own
		}
		overlaps(shared, last.Metadata.Name+" takes precedence")
		broken := intersect(first.compressed(), shared)
		broken = slices.DeleteFunc(broken, func(path string) bool { return slices.Contains(last.compressed(), path) })
		if minor, known := minorRelease(c.report.Release); len(broken) > 0 && (!known || minor < compressionRelease) {
			c.find(findings.MachineConfigCompressed, findings.Values{
				"config": name, "shared": join(broken), "compressed": first.Metadata.Name, "plain": last.Metadata.Name,
				"release": c.release(),
			})
		}
	}
	overlaps(rest, "the MachineConfig whose name is last in the alphabet takes precedence")
}

// mergedLater reports whether the machine-config-operator merges a after b: MachineConfigs of the
// workers come first, and all are sorted by name (MergeMachineConfigs).
func mergedLater(a, b machineConfig) bool {
	worker := func(m machineConfig) bool { return m.Metadata.Labels[roleLabel] == "worker" }
	if worker(a) != worker(b) {
		return worker(b)
	}
	return a.Metadata.Name > b.Metadata.Name
}

// release names the release of the cluster for a problem that only releases before 4.20 have.
func (c *checker) release() string {
	if _, known := minorRelease(c.report.Release); !known {
		return "OpenShift before 4.20 (no ClusterVersion was given)"
	}
	return "OpenShift " + c.report.Release
}

// intersect returns the keys that are in both lists.
func intersect(keys, others []string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return !slices.Contains(others, key) })
}

// sharedWith returns the files and units of this service that a MachineConfig contains.
func (c *checker) sharedWith(other machineConfig) []string {
	policy, own := disruption.InstallerPolicy(), c.ownKeys()
	return slices.DeleteFunc(other.keys(), func(key string) bool {
		_, covered := policy.Entry(key)
		return !covered && !slices.Contains(own, key)
	})
}

// countNames counts the objects. Several files can contain the same object: one from the
// cluster and the rendered one.
func countNames(all []machineConfig) int {
	names := make(map[string]bool)
	for _, m := range all {
		names[m.Metadata.Name] = true
	}
	return len(names)
}

// checkNames examines the named certificates of the APIServer. A change of the MachineConfigs
// does not depend on it, so it is optional.
func (c *checker) checkNames() {
	if c.objects.apiServer == nil {
		return
	}
	entries := c.objects.apiServer.Spec.ServingCerts.Named
	if len(entries) == 0 {
		c.examined("APIServer cluster without named certificates: before you add one, see %s", docurl.BeforeTheSwitch)
		return
	}
	c.examined("APIServer cluster, named certificates: %d", len(entries))
	if len(entries) > chain.MaxNamedCertificates {
		c.find(findings.NamedCertificatesTooMany, findings.Values{
			"count": strconv.Itoa(len(entries)), "limit": strconv.Itoa(chain.MaxNamedCertificates),
		})
	}
	if len(c.objects.secrets) > 0 {
		c.examined("Secrets: %d", len(c.objects.secrets))
	}
	for _, f := range chain.JudgeNamed(entries, c.objects.secrets, time.Time{}) {
		f.Level = findings.Warning // a change of the MachineConfigs does not depend on it
		c.add(f)
	}
	for i, e := range entries {
		for j, name := range e.Names {
			if config.IsInternalAPIName(strings.ToLower(strings.TrimSuffix(name, "."))) {
				c.find(findings.NamedCertificateInternalName, findings.Values{
					"field": fmt.Sprintf("spec.servingCerts.namedCertificates[%d].names[%d]", i, j), "name": name,
				})
			}
		}
	}
}

// conclude sets the outcome and the summary.
func (c *checker) conclude() {
	r := &c.report
	r.Outcome, r.Summary = report.Conclude(c.levels, len(r.NotExamined) > 0)
	if r.Outcome == report.CheckOK {
		r.Summary = "no problem found: a change of these MachineConfigs reboots no node of the pool " + c.pool
	}
}

// join returns the first distinct names in their order.
func join(names []string) string {
	const limit = 20
	var all []string
	for _, name := range names {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	if more := len(all) - limit; more > 0 {
		all = append(all[:limit], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, ", ")
}
