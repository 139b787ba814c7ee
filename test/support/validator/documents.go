// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Documents splits a YAML file into its documents, without documents that contain only
// comments.
func Documents(file []byte) ([][]byte, error) {
	var documents [][]byte
	r := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(file)))
	for {
		document, err := r.Read()
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, fmt.Errorf("split a YAML file: %w", err)
		}
		var content any
		if err := yaml.Unmarshal(document, &content); err != nil {
			return nil, fmt.Errorf("document %d of a YAML file: %w", len(documents)+1, err)
		}
		if content != nil {
			documents = append(documents, document)
		}
	}
}
