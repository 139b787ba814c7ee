// SPDX-License-Identifier: Apache-2.0

// Command syscalls measures the system calls that the child processes of the service make
// while tests run, and compares them with those that their filter allows.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	binary := flag.String("binary", "", "the service's program")
	document := flag.String("document", "../docs/internals/system-calls.md", "the document with the allowed calls")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr,
			"usage: syscalls -binary FILE COMMAND [ARGUMENT...]\n\nRuns a command, such as go test, whose tests start the "+
				"service from HTTP01_PROXYD.")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *binary == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(context.Background(), *binary, *document, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "syscalls:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, binary, document string, command []string) error {
	text, err := os.ReadFile(document)
	if err != nil {
		return fmt.Errorf("read the allowed calls: %w", err)
	}
	dir, err := os.MkdirTemp("", "http01-syscalls-")
	if err != nil {
		return fmt.Errorf("make a directory for the traces: %w", err)
	}
	defer os.RemoveAll(dir)
	if binary, err = filepath.Abs(binary); err != nil {
		return fmt.Errorf("find the program: %w", err)
	}
	// With -D the service keeps its process ID and its parent; strace is its child.
	wrapper := fmt.Sprintf("#!/bin/bash\nexec strace -D -ff -ttt -qq -s 32 -o '%s/trace.'$$ -- '%s' \"$@\"\n", dir, binary)
	path := filepath.Join(dir, "http01-proxyd")
	if err := os.WriteFile(path, []byte(wrapper), 0o755); err != nil { //nolint:gosec // a program
		return fmt.Errorf("write the program that traces: %w", err)
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.Env = append(os.Environ(), "HTTP01_PROXYD="+path)
	failed := cmd.Run()
	traces, err := filepath.Glob(filepath.Join(dir, "trace.*.*"))
	if err != nil {
		return err
	}
	services := make(map[string][]string)
	for _, trace := range traces {
		service := strings.TrimSuffix(trace, filepath.Ext(trace))
		services[service] = append(services[service], trace)
	}
	made := make(usage)
	for _, own := range services {
		if err := made.add(own); err != nil {
			return err
		}
	}
	if err := printReport(os.Stdout, parseAllowed(string(text)), made); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("run %s: %w", command[0], failed)
	}
	return nil
}
