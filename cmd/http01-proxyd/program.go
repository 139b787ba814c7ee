// SPDX-License-Identifier: Apache-2.0

//go:build !docs

package main

import (
	"os"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
)

func main() {
	if code, ran := runChild(os.Args); ran {
		os.Exit(code)
	}
	cli.Main(rootCommand())
}
