// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/command"
	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/pkg/exporter"
)

func exporterCommand() command.Command {
	return childCommand(child.Exporter, "serve metrics (internal; started by \"run\")", `Serve metrics on metrics.listenAddress of the configuration. This is a child
process of "run", which passes the listening socket and replaces the process when
it ends. It has no capability and opens no file.`, exporter.RunConfined)
}
