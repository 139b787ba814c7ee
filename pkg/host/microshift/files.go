// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v2"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

// Limits on the files that are read. A host's configuration has a few KiB.
const (
	maxFileBytes  = 256 << 10
	maxFiles      = 128
	maxBytes      = 1 << 20
	maxDirs       = 128  // below config.d; each directory is watched
	maxDirEntries = 4096 // of config.d, including files that are not read
)

type file struct {
	path string
	text []byte
}

// ConfigFile returns the path of the main configuration file in dir.
func ConfigFile(dir string) string { return filepath.Join(dir, "config.yaml") }

// DropInDir returns the directory of the files that extend ConfigFile.
func DropInDir(dir string) string { return filepath.Join(dir, "config.d") }

// Present reports whether MicroShift's configuration directory exists. It returns true if
// this cannot be determined, because packets to MicroShift's internal addresses must never be
// redirected.
func Present(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR)
	}
	return info.IsDir()
}

// readFiles reads all files of the configuration in MicroShift's order: the main file, then
// the files of config.d in the order of filepath.WalkDir. watch lists the paths to watch for
// changes, also with an error.
func readFiles(dir string) (files []file, watch []string, err error) {
	watch = []string{ConfigFile(dir), DropInDir(dir)}
	paths, dirs, err := listDropIns(DropInDir(dir))
	watch = append(watch, dirs...)
	if err != nil {
		return nil, watch, err
	}
	total := 0
	for i, path := range append([]string{ConfigFile(dir)}, paths...) {
		text, err := textfile.Read(path, maxFileBytes)
		if i == 0 && errors.Is(err, fs.ErrNotExist) {
			continue // MicroShift has defaults
		}
		if err != nil {
			return nil, watch, fmt.Errorf("read MicroShift's configuration: %w", explainPermission(err))
		}
		if total += len(text); total > maxBytes {
			return nil, watch, fmt.Errorf("read MicroShift's configuration: the files have more than %d bytes in total: remove unneeded content from %s", maxBytes, dir)
		}
		files = append(files, file{path, text})
	}
	return files, watch, nil
}

// listDropIns lists the drop-in files of config.d and the directories below it. As in
// WalkDir, a symbolic link to a file is read and a symbolic link to a directory is not
// followed. config.d is ignored if it is a symbolic link itself.
func listDropIns(root string) (paths, dirs []string, err error) {
	info, err := os.Lstat(root)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil, nil, nil
	}
	w := dirWalk{root: root}
	if err == nil {
		err = w.readDir(root)
	}
	if err != nil {
		return nil, w.dirs, fmt.Errorf("list MicroShift's configuration: %w", explainPermission(err))
	}
	return w.paths, w.dirs, nil
}

// explainPermission adds the remediation for a file that only root can read.
func explainPermission(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("the service does not run as root: make the file world-readable (chmod a+rX): %w", err)
	}
	return err
}

// dirWalk walks a directory like filepath.WalkDir, with limits: WalkDir reads a whole
// directory before its first callback.
type dirWalk struct {
	root        string
	paths, dirs []string
	entries     int
}

func (w *dirWalk) readDir(dir string) (err error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	list, err := f.ReadDir(maxDirEntries - w.entries + 1)
	if err = errors.Join(err, f.Close()); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if w.entries += len(list); w.entries > maxDirEntries {
		return fmt.Errorf("%s has more than %d entries: remove unneeded entries", w.root, maxDirEntries)
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, entry := range list {
		if err := w.addEntry(filepath.Join(dir, entry.Name()), entry); err != nil {
			return err
		}
	}
	return nil
}

func (w *dirWalk) addEntry(path string, entry fs.DirEntry) error {
	switch {
	case entry.IsDir():
		if w.dirs = append(w.dirs, path); len(w.dirs) > maxDirs {
			return fmt.Errorf("%s has more than %d directories: remove unneeded directories", w.root, maxDirs)
		}
		return w.readDir(path)
	case filepath.Ext(entry.Name()) == ".yaml":
		if w.paths = append(w.paths, path); len(w.paths) > maxFiles {
			return fmt.Errorf("%s has more than %d files with the extension .yaml: merge them", w.root, maxFiles)
		}
	}
	return nil
}

// errNotJSON applies to the remaining YAML values that JSON cannot represent.
var errNotJSON = errors.New("the content has a value that JSON cannot represent, such as .nan or .inf: use another value")

// errKeyNotScalar replaces a message of the library that names Go types.
var errKeyNotScalar = errors.New("a key is a list or a mapping: a key must be a string")

// decode converts the first document of a file to JSON values. It uses the library with which
// sigs.k8s.io/yaml reads the file for MicroShift, because YAML libraries differ. A file that
// contains only comments is nil. p limits all files together.
func decode(text []byte, p *normalizer) (any, error) {
	var tree any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		message := strings.TrimPrefix(err.Error(), "yaml: ")
		if strings.HasPrefix(message, "invalid map key: ") {
			return nil, errKeyNotScalar
		}
		return nil, fmt.Errorf("invalid YAML: %s", message)
	}
	plain, err := p.normalize(tree, 0)
	if err != nil {
		return nil, err
	}
	// The conversion to JSON replaces bytes that are not valid UTF-8.
	if text, err = json.Marshal(plain); err != nil {
		return nil, errNotJSON
	}
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber() // keeps numbers as they are written
	var value any
	err = numbers.Decode(&value)
	return value, err
}
