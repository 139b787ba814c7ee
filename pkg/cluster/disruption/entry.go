// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"slices"

	"go.yaml.in/yaml/v4"
)

// placed is an entry that an object holds.
type placed struct {
	Entry
	node  *yaml.Node
	plain bool // holds nothing but what an Entry says
}

func (p placed) same(ours Entry) bool {
	return p.plain && slices.Equal(p.Actions, ours.Actions)
}

func (p placed) describe() string {
	if !p.plain {
		return describe(p.Actions) + " and more"
	}
	return describe(p.Actions)
}

// entries reads a list.
func (e *editing) entries(node *yaml.Node, l policyList) ([]placed, error) {
	if node.Kind != yaml.SequenceNode {
		return nil, e.problem(node, getMend, "%s is not a list", l.name)
	}
	out := make([]placed, 0, len(node.Content))
	for _, n := range node.Content {
		if n.Kind != yaml.MappingNode {
			return nil, e.problem(n, "write the entry out, with "+l.key+" and actions", "an entry of %s is not a mapping", l.name)
		}
		p, err := e.entry(n, l)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(other placed) bool { return other.Key == p.Key }) {
			return nil, e.problem(n, "keep one", "two entries of %s for %q", l.name, p.Key)
		}
		out = append(out, p)
	}
	return out, nil
}

func (e *editing) entry(n *yaml.Node, l policyList) (placed, error) {
	p := placed{node: n, plain: len(n.Content) == 4}
	key, err := e.child(n, l.key)
	if err != nil {
		return p, err
	}
	if key == nil || key.Kind != yaml.ScalarNode || isNull(key) {
		return p, e.problem(n, "give it one", "an entry of %s without %s", l.name, l.key)
	}
	p.Key = key.Value
	actions, err := e.child(n, "actions")
	if err != nil {
		return p, err
	}
	if actions == nil || actions.Kind != yaml.SequenceNode {
		p.plain = false
		return p, nil
	}
	for _, a := range actions.Content {
		action, plain := readAction(a)
		p.Actions, p.plain = append(p.Actions, action), p.plain && plain
	}
	return p, nil
}

// readAction reads what an Action can hold, and tells whether that is all.
func readAction(n *yaml.Node) (a Action, plain bool) {
	if n.Kind != yaml.MappingNode {
		return Action{Type: n.Value}, false
	}
	plain = true
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, n.Content[i+1]
		switch key {
		case "type":
			a.Type = value.Value
		case "restart", "reload":
			if value.Kind != yaml.MappingNode || len(value.Content) != 2 || value.Content[0].Value != "serviceName" {
				plain = false
				continue
			}
			a.Service = value.Content[1].Value
		default:
			plain = false
		}
	}
	return a, plain
}
