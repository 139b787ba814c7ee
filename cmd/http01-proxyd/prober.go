// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/command"
	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/network"
)

func proberCommand() command.Command {
	return childCommand(child.Prober, "query the network (internal; started by \"check\" and \"run\")", `Query the network on behalf of "check", or of the certificate checks of "run". This
is a child process of these commands. It has no capability and opens no file.`, network.RunConfined)
}
