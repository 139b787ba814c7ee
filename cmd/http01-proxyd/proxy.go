// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/command"
	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy"
)

func proxyCommand() command.Command {
	return childCommand(child.Proxy, "serve clients (internal; started by \"run\")", `Read requests from clients and forward challenges. This is a child process of "run",
which passes the listening sockets and replaces the process when it ends. It has no
capability and opens no file.

Example:
  # the processes of the service, and the privileges of the proxy
  systemctl status http01-proxyd
  grep -E 'Cap|NoNewPrivs|Seccomp' /proc/"$(pgrep -f 'http01-proxyd proxy')"/status`, proxy.RunConfined)
}
