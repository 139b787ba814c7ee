// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

// Limits on the files that are read. A host's configuration is a few KiB long.
const (
	maxFileBytes = 256 << 10
	maxBytes     = 1 << 20
	maxEntries   = 1024 // of config.d and the directories below it, each of which is watched
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
	info, err := stat(dir)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR)
	}
	return info.IsDir()
}

// readFiles reads all files of the configuration in MicroShift's order: the main file, then
// the files of config.d in the order of filepath.WalkDir. watch lists the paths to watch for
// changes, also with an error.
func readFiles(dir string) (files []file, watch []string, err error) {
	found, err := textfile.Within(DropInDir(dir), func() (dropIns, error) { return listDropIns(DropInDir(dir)) })
	watch = append([]string{ConfigFile(dir), DropInDir(dir)}, found.dirs...)
	if err != nil {
		return nil, watch, err
	}
	total := 0
	for i, path := range append([]string{ConfigFile(dir)}, found.files...) {
		text, err := textfile.Read(path, maxFileBytes)
		if i == 0 && errors.Is(err, fs.ErrNotExist) {
			continue // MicroShift uses defaults
		}
		if err != nil {
			return nil, watch, fmt.Errorf("read MicroShift's configuration: %w", explainPermission(err))
		}
		if total += len(text); total > maxBytes {
			return nil, watch, fmt.Errorf("read MicroShift's configuration: "+
				"the files in %s have more than %d bytes in total: remove unneeded content", dir, maxBytes)
		}
		files = append(files, file{path, text})
	}
	return files, watch, nil
}

// stat is os.Stat, and waits for at most [textfile.Timeout].
func stat(path string) (fs.FileInfo, error) {
	return textfile.Within(path, func() (fs.FileInfo, error) { return os.Stat(path) })
}

// dropIns are the paths of the drop-in files, and of the directories with them.
type dropIns struct{ files, dirs []string }

// listDropIns lists the drop-in files of config.d and the directories below it. A symbolic link to a
// file is read, and a symbolic link to a directory is not followed, as in MicroShift.
func listDropIns(root string) (found dropIns, err error) {
	entries := 0
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch entries++; {
		case err != nil:
			return err
		case entries > maxEntries:
			return fmt.Errorf("%s has more than %d entries: remove unneeded entries", root, maxEntries)
		case entry.IsDir():
			found.dirs = append(found.dirs, path)
		case filepath.Ext(path) == ".yaml":
			found.files = append(found.files, path)
		}
		return nil
	})
	if len(found.dirs) == 0 && errors.Is(err, fs.ErrNotExist) {
		return dropIns{}, nil
	}
	if err != nil {
		err = fmt.Errorf("list MicroShift's configuration: %w", explainPermission(err))
	}
	return found, err
}

// explainPermission adds the remediation for a file that only root can read.
func explainPermission(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("the service does not run as root: make the file world-readable (chmod a+rX): %w", err)
	}
	return err
}
