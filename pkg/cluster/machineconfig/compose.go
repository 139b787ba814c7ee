// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

// setting is a value of the configuration that another file of the administrator has.
type setting struct {
	keys  []string
	value any
	from  string // the file; empty: the value completes the configuration
}

// compose adds settings to the configuration. given means that the administrator wrote it: a
// key in both is a problem, because it would be unclear which value applies.
func compose(configuration Input, given bool, settings []setting) (Input, error) {
	if len(settings) == 0 {
		return configuration, nil
	}
	var document yaml.Node
	if err := yaml.Load(configuration.Text, &document); err != nil || len(document.Content) == 0 {
		document = yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{}}} // it has only comments
	}
	var problems []error
	var sources []string
	for _, s := range settings {
		if s.from != "" && !slices.Contains(sources, path.Base(s.from)) {
			sources = append(sources, path.Base(s.from))
		}
		at, present := document.Content[0], false
		for _, key := range s.keys {
			at, present = entry(at, key)
		}
		if present && given && s.from != "" {
			message := fmt.Sprintf("%s is also set by %s", strings.Join(s.keys, "."), s.from)
			problems = append(problems, problemAt(configuration.Name, at, message, "remove one of the two"))
		}
		problems = append(problems, at.Encode(s.value))
	}
	text, err := yaml.Dump(&document, yaml.WithIndent(2))
	if err := errors.Join(append(problems, err)...); err != nil {
		return configuration, err
	}
	if len(sources) > 0 {
		text = fmt.Appendf(nil, "# With settings of %s: change these files, and render again.\n%s",
			strings.Join(sources, " and "), text)
	}
	if _, err = config.Parse(configuration.Name, text); err != nil && given {
		sources = append(sources, configuration.Name)
	}
	return Input{Name: configuration.Name, Text: text}, withoutPositions(err, strings.Join(sources, " and "))
}

// entry returns the value of a key, which it adds if the mapping does not have it.
func entry(n *yaml.Node, key string) (value *yaml.Node, present bool) {
	if n.Kind != yaml.MappingNode { // a key without a value
		*n = yaml.Node{Kind: yaml.MappingNode}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1], true
		}
	}
	value = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, value)
	return value, false
}

// withoutPositions returns problems of a composed configuration, whose lines nobody sees, with
// the files that the values are from.
func withoutPositions(err error, where string) error {
	var found config.Problems
	if !errors.As(err, &found) {
		return err
	}
	problems := make([]error, len(found))
	for i, p := range found {
		problems[i] = problem(where, p.Message, p.Remediation)
	}
	return errors.Join(problems...)
}
