// SPDX-License-Identifier: Apache-2.0

// Package sources owns the files that reach a host: the Butane sources, the
// units and the installer. They are embedded, so that a tool that was built or
// installed from here needs no checkout.
package sources

import "embed"

// Files holds butane/ and systemd/ under these names. A file mode is not kept:
// the Butane sources say which one a file gets on the host.
//
//go:embed butane systemd
var Files embed.FS
