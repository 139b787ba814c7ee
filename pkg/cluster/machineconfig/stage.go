// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Paths below the files directory of the Butane sources. A checkout is such a
// directory.
const (
	serviceSource = "butane/service.bu"
	configSource  = "butane/config.bu"
	layeredSource = "butane/layered.bu"
	fcosSource    = "butane/fcos.bu"

	configFile  = "butane/config.yaml"
	imageDropin = "butane/10-image.conf"
	bundleFile  = "butane/ca-bundle.crt"
	binaryFile  = "bin/http01-proxyd"
)

// bundlePath is the bundle on a host, and the default of upstream.trustedCA.
const bundlePath = "/etc/http01-proxyd/ca-bundle.crt"

func (s resolvedSite) files() map[string][]byte {
	files := map[string][]byte{configFile: s.configuration.Text}
	if s.bundle != nil {
		files[bundleFile] = s.bundle
	}
	return files
}

// insertBundle adds the bundle to a Butane source, after the configuration: Butane does
// not support optional files. The lines before it keep their numbers.
func insertBundle(source string, text []byte) ([]byte, error) {
	const behind = "        local: " + configFile + "\n"
	before, after, found := bytes.Cut(text, []byte(behind))
	if !found {
		return nil, fmt.Errorf("%s does not contain the configuration file", source)
	}
	file := "    - path: " + bundlePath + "\n      mode: 0644\n"
	if bytes.Contains(before, []byte("      overwrite: true\n")) {
		file += "      overwrite: true\n"
	}
	file += "      contents:\n        local: " + bundleFile + "\n"
	return slices.Concat(before, []byte(behind), []byte(file), after), nil
}

// withStagedFiles creates a files directory from the sources and the generated files,
// which take precedence, and removes it after use.
func withStagedFiles(sources fs.FS, generated map[string][]byte, use func(dir string) error) (err error) {
	dir, err := os.MkdirTemp("", "oc-http01-*") // mode 0700
	if err != nil {
		return fmt.Errorf("cannot create a directory for Butane: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.CopyFS(dir, sources); err != nil {
		return fmt.Errorf("cannot copy the sources for Butane: %w", err)
	}
	for name, text := range generated {
		path := filepath.Join(dir, filepath.FromSlash(name))
		// An embedded file is copied read-only, so it must be replaced.
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot replace %s: %w", name, err)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("cannot create the directory of %s: %w", name, err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return fmt.Errorf("cannot write %s for Butane: %w", name, err)
		}
	}
	return use(dir)
}
