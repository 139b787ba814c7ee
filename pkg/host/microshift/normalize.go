// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"errors"
	"fmt"
	"strconv"
)

// Limits on the content of the files, after aliases are expanded. MicroShift's limits are
// higher.
const (
	maxValues = 1 << 16
	maxDepth  = 64
	maxText   = 1 << 20
)

var errTooLarge = errors.New("the content has too many values or is nested too deep: remove unneeded keys")

// errDuplicateKey applies to keys such as 1 and "1". MicroShift uses one of the two at
// random.
var errDuplicateKey = errors.New("MicroShift would use one of its two notations at random: remove one")

var errKeyNotName = errors.New("a key must be a string")

// normalizer converts YAML values to values that JSON can represent. Keys that are not
// strings become strings.
type normalizer struct{ values, text int }

func (p *normalizer) normalize(value any, depth int) (any, error) {
	if err := p.count(value, depth); err != nil {
		return nil, err
	}
	switch v := value.(type) {
	case map[any]any:
		return p.normalizeMapping(v, depth)
	case []any:
		for i, inner := range v {
			plain, err := p.normalize(inner, depth+1)
			if err != nil {
				return nil, err
			}
			v[i] = plain
		}
		return v, nil
	default:
		return v, nil
	}
}

func (p *normalizer) count(value any, depth int) error {
	if s, ok := value.(string); ok {
		p.text += len(s)
	}
	if p.values++; p.values > maxValues || p.text > maxText || depth > maxDepth {
		return errTooLarge
	}
	return nil
}

func (p *normalizer) normalizeMapping(v map[any]any, depth int) (any, error) {
	out := make(map[string]any, len(v))
	for key, inner := range v {
		name, err := keyName(key)
		if err == nil {
			err = p.count(name, depth)
		}
		if _, duplicate := out[name]; duplicate && err == nil {
			err = fmt.Errorf("duplicate key %s: %w", name, errDuplicateKey)
		}
		if err != nil {
			return nil, err
		}
		if out[name], err = p.normalize(inner, depth+1); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// keyName returns a key as sigs.k8s.io/yaml writes it.
func keyName(key any) (string, error) {
	switch k := key.(type) {
	case string:
		return k, nil
	case int:
		return strconv.Itoa(k), nil
	case int64:
		return strconv.FormatInt(k, 10), nil
	case float64:
		return formatFloat(k), nil
	case bool:
		return strconv.FormatBool(k), nil
	case nil:
		return "", fmt.Errorf("invalid key null: %w", errKeyNotName)
	default:
		return "", fmt.Errorf("invalid key %v: %w", key, errKeyNotName)
	}
}

func formatFloat(k float64) string {
	switch s := strconv.FormatFloat(k, 'g', -1, 32); s {
	case "+Inf":
		return ".inf"
	case "-Inf":
		return "-.inf"
	case "NaN":
		return ".nan"
	default:
		return s
	}
}
