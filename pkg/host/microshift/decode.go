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

// errNotJSON is about the only values of YAML that are left by then and that JSON has not.
var errNotJSON = errors.New("it has what JSON does not know, a number such as .nan or .inf: write another")

// errKeyNotScalar is about keys that the library would tell of in Go's words.
var errKeyNotScalar = errors.New("it has a list or a mapping in place of a key's name: write a name")

// decode turns the first document of a file into what JSON knows, by the library that
// sigs.k8s.io/yaml reads it with for MicroShift: what YAML is differs from one to the
// next. A file of comments alone is nil. p bounds all files together.
func decode(text []byte, p *normalizer) (any, error) {
	var tree any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		says := strings.TrimPrefix(err.Error(), "yaml: ")
		if strings.HasPrefix(says, "invalid map key: ") {
			return nil, errKeyNotScalar
		}
		return nil, fmt.Errorf("not valid YAML: %s: correct it there", says)
	}
	plain, err := p.normalize(tree, 0)
	if err != nil {
		return nil, err
	}
	// Through JSON, which knows no bytes that are no UTF-8.
	if text, err = json.Marshal(plain); err != nil {
		return nil, errNotJSON
	}
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber() // as they are written
	var value any
	err = numbers.Decode(&value)
	return value, err
}
