// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"errors"
	"fmt"
	"strconv"
)

// The bounds of what files hold, after aliases were followed. MicroShift has wider ones.
const (
	maxValues = 1 << 16
	maxDepth  = 64
	maxText   = 1 << 20
)

var errTooLarge = errors.New("it has too many values, or too deep ones: leave in it what is needed")

// errDuplicateKey is about 1 and "1", say: MicroShift takes one of the two by chance.
var errDuplicateKey = errors.New("which comes twice, in two ways of writing it, and MicroShift would take one of them by chance: leave one")

var errKeyNotName = errors.New("which is no name: write one")

// normalizer turns YAML's values into those that JSON has: keys that are no texts
// become some.
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
	if s, is := value.(string); is {
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
		if _, is := out[name]; is && err == nil {
			err = fmt.Errorf("it has the key %s, %w", name, errDuplicateKey)
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

// keyName is the key as sigs.k8s.io/yaml writes it.
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
		return "", fmt.Errorf("it has the key null, %w", errKeyNotName)
	default:
		return "", fmt.Errorf("it has the key %v, %w", key, errKeyNotName)
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
