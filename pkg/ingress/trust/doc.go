// SPDX-License-Identifier: Apache-2.0

// Package trust selects the CA certificates that verify the ingress, and reads the file
// that contains them when its caller requests it ([Source.Refresh]). The selection is
// pure, so that the controller, the administrator's tool and check give the same result.
// The package opens no connection, and watches nothing: package trust of the controller does.
package trust
