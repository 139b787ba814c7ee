// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v4"
)

// MaxEntries is how many entries the API takes in a list (maxItems in the CRD).
const MaxEntries = 50

// Result is an object after a merge or a removal.
type Result struct {
	Text     []byte   // the very bytes that were given when nothing changed
	Changes  []string // one sentence each
	Warnings []string
}

// Merge adds the policy's entries to a MachineConfiguration, which is what oc
// has printed, in YAML or JSON; name is its file's in messages. What else it
// holds stays as it is, status, resourceVersion and managedFields included: oc
// replace accepts these, refuses an object that has been changed meanwhile,
// and does not write the status. An entry with one of our keys and other
// actions is a conflict, unless force replaces its actions.
func (p Policy) Merge(name string, current []byte, force bool) (Result, error) {
	d, err := parse(name, current)
	if err != nil {
		return Result{}, err
	}
	e := editing{document: d, policy: p}
	policy, err := e.grown(true)
	if err != nil {
		return Result{}, err
	}
	var problems []error
	for _, l := range p.lists() {
		problems = append(problems, e.add(policy, l, force))
	}
	if err := errors.Join(problems...); err != nil {
		return Result{}, err
	}
	return e.finish(current)
}

// Remove takes those entries away that are exactly ours.
func (p Policy) Remove(name string, current []byte) (Result, error) {
	d, err := parse(name, current)
	if err != nil {
		return Result{}, err
	}
	e := editing{document: d, policy: p}
	policy, err := e.grown(false)
	if err != nil || policy == nil {
		return Result{Text: current}, err
	}
	for _, l := range p.lists() {
		if err := e.remove(policy, l); err != nil {
			return Result{}, err
		}
	}
	spec, err := e.child(d.node.Content[0], "spec")
	if err != nil {
		return Result{}, err
	}
	if len(e.changes) > 0 {
		prune(spec, "nodeDisruptionPolicy")
	}
	return e.finish(current)
}

// editing is a document under change.
type editing struct {
	document
	policy            Policy
	changes, warnings []string
}

// grown gives spec.nodeDisruptionPolicy, nil when it is absent and not to be
// made.
func (e *editing) grown(grow bool) (*yaml.Node, error) {
	node := e.node.Content[0]
	for _, key := range []string{"spec", "nodeDisruptionPolicy"} {
		var err error
		if grow {
			node, err = e.grow(node, key, yaml.MappingNode)
		} else {
			node, err = e.child(node, key)
		}
		if err != nil || node == nil {
			return nil, err
		}
	}
	return node, nil
}

// add puts the entries of one list in.
func (e *editing) add(policy *yaml.Node, l policyList, force bool) error {
	if len(l.entries) == 0 {
		return nil
	}
	node, err := e.grow(policy, l.name, yaml.SequenceNode)
	if err != nil {
		return err
	}
	present, err := e.entries(node, l)
	if err != nil {
		return err
	}
	var problems []error
	for _, ours := range l.entries {
		switch i := slices.IndexFunc(present, func(p placed) bool { return p.Key == ours.Key }); {
		case i < 0:
			node.Content = append(node.Content, entryNode(l.key, ours))
			e.changed("added %s %s with the actions %s", l.name, ours.Key, describe(ours.Actions))
		case present[i].same(ours):
		case !force:
			problems = append(problems, e.problem(present[i].node, "agree with whoever wrote it, or replace it with --force",
				"an entry of %s for %s is there with the actions %s, not with ours, %s", l.name, ours.Key, present[i].describe(), describe(ours.Actions)))
		default:
			if err := e.replace(present[i], ours, l); err != nil {
				problems = append(problems, err)
				continue
			}
			e.changed("replaced the actions of %s %s, which were %s, by %s", l.name, ours.Key, present[i].describe(), describe(ours.Actions))
		}
	}
	if n := len(node.Content); n > MaxEntries {
		problems = append(problems, e.problem(node, fmt.Sprintf("take %d away that are not needed, or cover several files by one directory", n-MaxEntries),
			"with ours the list %s would have %d entries, and the API takes %d", l.name, n, MaxEntries))
	}
	if l.name == "files" {
		e.warnCloser(node, l)
	}
	return errors.Join(problems...)
}

// replace gives an entry our actions, in its place.
func (e *editing) replace(there placed, ours Entry, l policyList) error {
	actions, err := e.grow(there.node, "actions", yaml.SequenceNode)
	if err != nil {
		return err
	}
	actions.Content = actionsNode(ours.Actions).Content
	for i := 0; i+1 < len(there.node.Content); {
		if key := there.node.Content[i].Value; key == "actions" || key == l.key {
			i += 2
			continue
		}
		there.node.Content = slices.Delete(there.node.Content, i, i+2)
	}
	return nil
}

// remove takes the entries of one list out.
func (e *editing) remove(policy *yaml.Node, l policyList) error {
	node, err := e.child(policy, l.name)
	if err != nil || node == nil || isNull(node) {
		return err
	}
	present, err := e.entries(node, l)
	if err != nil {
		return err
	}
	before := len(node.Content)
	for _, there := range present {
		ours := entryFor(l.entries, there.Key)
		switch {
		case ours == nil:
		case there.same(*ours):
			node.Content = slices.DeleteFunc(node.Content, func(n *yaml.Node) bool { return n == there.node })
			e.changed("removed %s %s", l.name, there.Key)
		default:
			e.warnings = append(e.warnings, fmt.Sprintf("%s %s stays: its actions are %s, not ours, %s", l.name, there.Key, there.describe(), describe(ours.Actions)))
		}
	}
	if len(node.Content) < before {
		prune(policy, l.name)
	}
	return nil
}

// warnCloser names entries that are in force for our files in place of ours.
func (e *editing) warnCloser(node *yaml.Node, l policyList) {
	present, err := e.entries(node, l)
	if err != nil {
		return // said before
	}
	all := make([]Entry, len(present))
	for i, p := range present {
		all[i] = p.Entry
	}
	for _, file := range e.policy.Delivered {
		ours, inForce := closestEntry(l.entries, file), closestEntry(all, file)
		if ours != nil && inForce != nil && inForce.Key != ours.Key {
			e.warnings = append(e.warnings, fmt.Sprintf("a change of %s is followed by %s: the entry for %s is closer to it than ours for %s: remove that entry, or expect this",
				file, describe(inForce.Actions), inForce.Key, ours.Key))
		}
	}
}

func (e *editing) changed(format string, args ...any) {
	e.changes = append(e.changes, fmt.Sprintf(format, args...))
}

// finish writes the object, and reads it again: an object that governs the
// reboots of a whole cluster is not handed out on trust.
func (e *editing) finish(current []byte) (Result, error) {
	r := Result{Text: current, Changes: e.changes, Warnings: e.warnings}
	if len(e.changes) == 0 {
		return r, nil
	}
	out, err := e.write()
	if err != nil {
		return Result{}, err
	}
	if err := e.sameButFor(current, out); err != nil {
		return Result{}, Problem{e.name, fmt.Sprintf("it cannot be changed without touching something else (%v)", err), `give it as JSON ("oc get machineconfiguration cluster -o json")`}
	}
	r.Text = out
	return r, nil
}
