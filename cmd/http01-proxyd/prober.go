// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/command"
	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/network"
)

func proberCommand() command.Command {
	return childCommand(child.Prober, "ask the network; \"check\" and \"run\" start it", `Ask the network what "check", or the expiry watch of "run", wants to know. These
start it. It has no capability and opens no file.`, network.RunConfined)
}
