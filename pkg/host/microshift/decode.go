// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v2"
)

// errNotJSON applies to the remaining YAML values that JSON cannot represent.
var errNotJSON = errors.New("the content has a value that JSON cannot represent, such as .nan or .inf: use another value")

// errKeyNotScalar replaces a message of the library that names Go types.
var errKeyNotScalar = errors.New("a key is a list or a mapping: a key must be a string")

// decode converts the first document of a file to JSON values. It uses the library with which
// sigs.k8s.io/yaml reads the file for MicroShift, because YAML libraries differ. A file that
// contains only comments is nil. p limits all files together.
func decode(text []byte, p *normalizer) (any, error) {
	var tree any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		message := strings.TrimPrefix(err.Error(), "yaml: ")
		if strings.HasPrefix(message, "invalid map key: ") {
			return nil, errKeyNotScalar
		}
		return nil, fmt.Errorf("invalid YAML: %s", message)
	}
	plain, err := p.normalize(tree, 0)
	if err != nil {
		return nil, err
	}
	// The conversion to JSON replaces bytes that are not valid UTF-8.
	if text, err = json.Marshal(plain); err != nil {
		return nil, errNotJSON
	}
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber() // keeps numbers as they are written
	var value any
	err = numbers.Decode(&value)
	return value, err
}
