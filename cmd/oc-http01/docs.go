// SPDX-License-Identifier: Apache-2.0

//go:build docs

package main

import "github.com/http01-proxyd/http01-proxyd/cmd/internal/manual"

func main() { manual.Main(rootCommand()) }
