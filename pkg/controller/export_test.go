// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"encoding/json"
	"strings"
)

// SetTiming sets the timeouts and intervals that the JSON text of a timing names.
func (o *Options) SetTiming(text string) error {
	if text == "" {
		return nil
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(&o.timing)
}
