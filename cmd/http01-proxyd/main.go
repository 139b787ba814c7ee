// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/http01-proxyd/http01-proxyd/cmd/internal/command"

func main() { program().Main() }

func program() command.Program {
	return command.Program{
		Name: "http01-proxyd",
		Head: `http01-proxyd forwards ACME HTTP-01 challenges for the API VIP to the ingress
routers, and answers all other requests to port 80 of that VIP with 400.`,
		Foot: `"http01-proxyd COMMAND --help" describes a command. Exit codes: 0 success, 1 failure,
2 the command line is wrong. The help of check lists additional codes.`,
		Commands: []command.Command{runCommand(), proxyCommand(), proberCommand(), exporterCommand(), statusCommand(), checkCommand(), cleanupCommand()},
	}
}
