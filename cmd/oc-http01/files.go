// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

// stdin is the name of standard input.
const stdin = "-"

// maxInput is the limit of a file, far above real sizes: "oc get machineconfig" without a
// selector prints each configuration that the cluster rendered, with several hundred KiB.
const maxInput = 64 << 20

// readInput reads at most maxInput bytes of a file or of standard input. It returns nil
// without a name.
func readInput(in io.Reader, path string) (*machineconfig.Input, error) {
	name := path
	switch path {
	case "":
		return nil, nil //nolint:nilnil // not requested
	case stdin:
		name = "standard input"
	default:
		f, err := os.Open(path)
		if err != nil {
			return nil, readError(err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	switch {
	case err != nil:
		return nil, readError(err)
	case path == stdin && len(bytes.TrimSpace(text)) == 0: // for instance, because the command before the pipe failed
		return nil, errors.New("standard input is empty: pipe a file into the command, or name a file in place of -")
	case len(text) > maxInput:
		return nil, fmt.Errorf("cannot read %s: longer than %d bytes: check that it is the right file", name, maxInput)
	}
	return &machineconfig.Input{Name: name, Text: text}, nil
}

// readError adds the remediation to an error of a file that cannot be read.
func readError(err error) error {
	return fmt.Errorf("%w: name a readable file, or - for standard input", err)
}

// writeFiles writes the files to dir, each one atomically.
func writeFiles(dir string, outputs []outputFile) error {
	for _, o := range outputs {
		path := filepath.Join(dir, filepath.FromSlash(o.File))
		readable := func(temporary string) error { return os.Chmod(temporary, 0o644) } //nolint:gosec // no secret
		if err := textfile.ReplaceWith(path, o.Text, readable); err != nil {
			return fmt.Errorf("cannot write %s: %w: give another folder with --output-dir", path, err)
		}
	}
	return nil
}

// checkStaleFiles rejects a folder with objects of earlier renderings that this one does not
// overwrite: oc applies all files of a folder.
func checkStaleFiles(dir string, outputs []outputFile) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot list the folder: %w: give another folder with --output-dir", err)
	}
	ours := make(map[string]bool)
	for _, o := range outputs {
		ours[o.File] = true
	}
	var stale []string
	for _, e := range entries {
		if (isMachineConfig(e.Name()) || e.Name() == machineconfig.ImagePolicyFile) && !ours[e.Name()] {
			stale = append(stale, filepath.Join(dir, e.Name()))
		}
	}
	if len(stale) == 0 {
		return nil
	}
	return config.Problem{
		Where: dir,
		Message: fmt.Sprintf("the folder has %s of another rendering, which would also be applied",
			strings.Join(stale, " and ")),
		Remediation: "give another folder with --output-dir, or remove them",
	}
}

// isMachineConfig reports whether a rendering uses this file name, for any pool.
func isMachineConfig(name string) bool {
	return regexp.MustCompile(`^98-.+-http01-proxyd(-config)?\.ya?ml$`).MatchString(name)
}

// printStream writes the files as one YAML stream.
func printStream(w io.Writer, outputs []outputFile) error {
	all := make([][]byte, len(outputs))
	for i, o := range outputs {
		all[i] = o.Text
	}
	if _, err := w.Write(bytes.Join(all, []byte("---\n"))); err != nil {
		return fmt.Errorf("cannot write the output: %w", err)
	}
	return nil
}

// showFiles prints what the MachineConfigs write on a host, each file below its path and mode.
func showFiles(w io.Writer, outputs []outputFile) error {
	for _, o := range outputs {
		for _, file := range o.Files {
			if _, err := fmt.Fprintf(w, "==> %s (mode %04o) <==\n%s\n", file.Path, file.Mode, file.Text); err != nil {
				return fmt.Errorf("cannot write the output: %w", err)
			}
		}
	}
	return nil
}
