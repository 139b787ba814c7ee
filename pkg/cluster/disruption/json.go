// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"go.yaml.in/yaml/v4"
)

// maxDepth is far above that of any object of the API.
const maxDepth = 100

// parseJSON reads one JSON object into a tree that keeps the order of keys.
func parseJSON(data []byte) (*yaml.Node, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	node, err := readJSON(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the object")
	}
	return &yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{node}}, nil
}

func readJSON(d *json.Decoder, depth int) (*yaml.Node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("more than %d levels deep", maxDepth)
	}
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Delim:
		node := mappingNode()
		if v == '[' {
			node = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		}
		for d.More() { // keys are tokens like any other
			child, err := readJSON(d, depth+1)
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, child)
		}
		_, err := d.Token()
		return node, err
	case string:
		return stringNode(v), nil
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: v.String()}, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v)}, nil
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
	}
}

// writeJSON writes such a tree as oc does.
func writeJSON(n *yaml.Node) ([]byte, error) {
	var flat, out bytes.Buffer
	if err := flatJSON(&flat, n); err != nil {
		return nil, err
	}
	if err := json.Indent(&out, flat.Bytes(), "", "    "); err != nil {
		return nil, fmt.Errorf("write the merged object: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

func flatJSON(out *bytes.Buffer, n *yaml.Node) error {
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!str":
		quoted, err := json.Marshal(n.Value)
		if err != nil {
			return fmt.Errorf("write %q as JSON: %w", n.Value, err)
		}
		out.Write(quoted)
		return nil
	case n.Kind == yaml.ScalarNode:
		out.WriteString(n.Value)
		return nil
	}
	brackets := "[]"
	if n.Kind == yaml.MappingNode {
		brackets = "{}"
	}
	out.WriteByte(brackets[0])
	for i, child := range n.Content {
		switch {
		case i > 0 && n.Kind == yaml.MappingNode && i%2 == 1:
			out.WriteByte(':')
		case i > 0:
			out.WriteByte(',')
		}
		if err := flatJSON(out, child); err != nil {
			return err
		}
	}
	out.WriteByte(brackets[1])
	return nil
}
