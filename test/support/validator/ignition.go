// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"fmt"

	"github.com/coreos/ignition/v2/config/v3_4"
)

// Ignition validates a JSON config as Ignition 3.4 does on a new node. Warnings are errors
// here.
func Ignition(config []byte) error {
	_, report, err := v3_4.Parse(config)
	switch {
	case err != nil && len(report.Entries) > 0:
		return fmt.Errorf("ignition: %w: %s", err, report)
	case err != nil:
		return fmt.Errorf("ignition: %w", err)
	case len(report.Entries) > 0:
		return fmt.Errorf("ignition: %s", report)
	}
	return nil
}
