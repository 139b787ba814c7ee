// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"encoding/json"
	"strings"
)

// Shorten sets the waits of the service that the JSON text of a timing names.
func (o *Options) Shorten(text string) error {
	if text == "" {
		return nil
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(&o.timing)
}
