// SPDX-License-Identifier: Apache-2.0

// Command http01-proxyd is the service on the host: it forwards ACME HTTP-01 challenges
// for the API VIP to the ingress routers. It also contains the commands that inspect
// the service.
package main

import "github.com/http01-proxyd/http01-proxyd/cmd/internal/command"

func main() { program().Main() }

func program() command.Program {
	return command.Program{
		Name: "http01-proxyd",
		Head: `http01-proxyd leads ACME HTTP-01 challenges that arrive at the API VIP to the
ingress routers, and answers everything else on port 80 of that VIP with 400.`,
		Foot: `"http01-proxyd COMMAND --help" tells more. Exit codes: 0 done, 1 failed, 2 the
command line is wrong; check has codes of its own, which its help tells.`,
		Commands: []command.Command{runCommand(), proxyCommand(), proberCommand(), exporterCommand(), statusCommand(), checkCommand(), cleanupCommand()},
	}
}
