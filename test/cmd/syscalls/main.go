// SPDX-License-Identifier: Apache-2.0

// Command syscalls measures the system calls that the child processes of the service make
// while tests run, and compares them with those that their filter allows.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

func main() {
	binary := flag.String("binary", "", "the service's program")
	document := flag.String("document", "../docs/internals/system-calls.md", "the document with the allowed calls")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: syscalls -binary FILE COMMAND [ARGUMENT...]\n\nRuns a command, such as go test, whose tests start the service from HTTP01_PROXYD.")
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
	wrapper := fmt.Sprintf("#!/bin/bash\nexec strace -D -f -qq -s 32 -o '%s/trace.'$$ -- '%s' \"$@\"\n", dir, binary)
	path := filepath.Join(dir, "http01-proxyd")
	if err := os.WriteFile(path, []byte(wrapper), 0o755); err != nil { //nolint:gosec // a program
		return fmt.Errorf("write the program that traces: %w", err)
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.Env = append(os.Environ(), "HTTP01_PROXYD="+path)
	failed := cmd.Run()
	traces, err := filepath.Glob(filepath.Join(dir, "trace.*"))
	if err != nil {
		return err
	}
	made := make(usage)
	for _, trace := range traces {
		if err := addFile(made, trace); err != nil {
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

func addFile(made usage, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read a trace: %w", err)
	}
	defer f.Close()
	return made.add(f)
}

// lines reads a trace twice: strace may print the first calls of a thread before the end of
// the call that created it.
func lines(trace io.Reader) ([]string, error) {
	var all []string
	scanner := bufio.NewScanner(trace)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		all = append(all, scanner.Text())
	}
	return all, scanner.Err()
}
