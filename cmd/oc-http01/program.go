// SPDX-License-Identifier: Apache-2.0

//go:build !docs

package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
)

// main names the program in messages as it was called. krew links it as kubectl-http01.
func main() {
	root := rootCommand()
	if strings.HasPrefix(filepath.Base(os.Args[0]), "kubectl-http01") {
		root.Annotations[cobra.CommandDisplayNameAnnotation] = "kubectl http01"
	}
	cli.Main(root)
}
