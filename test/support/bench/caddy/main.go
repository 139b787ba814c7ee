// SPDX-License-Identifier: Apache-2.0

// Command caddy is Caddy with the few modules that the benchmark needs. It is built here,
// so that the benchmark needs only a compiler. It runs the given JSON configuration, and
// prints its version without an argument.
package main

import (
	"fmt"
	"os"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "caddy:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		version, _ := caddy.Version()
		fmt.Println("Caddy", version)
		return nil
	}
	config, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	caddy.TrapSignals()
	if err := caddy.Load(config, true); err != nil {
		return fmt.Errorf("run %s: %w", args[0], err)
	}
	select {}
}
