// SPDX-License-Identifier: Apache-2.0

// Package sources owns the files for hosts: the Butane sources, the units and the
// installer. They are embedded, so that the administrator's tool needs
// no checkout.
package sources

import "embed"

// Files contains butane/ and systemd/ under these names. File modes are not kept: the
// Butane sources define the mode of each file on the host.
//
//go:embed butane systemd
var Files embed.FS
