// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/command"
	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy"
)

func proxyCommand() command.Command {
	return childCommand(child.Proxy, "hold the front door; \"run\" starts it", `Hold the front door: read what clients send, and forward challenges. "run"
starts it, gives it its listening sockets and starts another when it ends. It
has no capability and opens no file.

Example:
  # which processes there are, and what the gate may do
  systemctl status http01-proxyd
  grep -E 'Cap|NoNewPrivs|Seccomp' /proc/"$(pgrep -f 'http01-proxyd proxy')"/status`, proxy.RunConfined)
}
