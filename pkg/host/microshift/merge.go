// SPDX-License-Identifier: Apache-2.0

package microshift

// mergePatch applies a JSON merge patch (RFC 7386) to the content of earlier files. Mappings
// are merged, all other values including lists are replaced, and null removes a key.
func mergePatch(target, patch map[string]any) map[string]any {
	if target == nil {
		target = make(map[string]any, len(patch))
	}
	for name, value := range patch {
		switch v := value.(type) {
		case nil:
			delete(target, name)
		case map[string]any:
			before, _ := target[name].(map[string]any)
			target[name] = mergePatch(before, v)
		default:
			target[name] = v
		}
	}
	return target
}
