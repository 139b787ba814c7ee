// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

// The bounds of what is read: a host's configuration has some KiB.
const (
	maxFileBytes  = 256 << 10
	maxFiles      = 128
	maxBytes      = 1 << 20
	maxDirs       = 128  // below config.d: each is watched
	maxDirEntries = 4096 // of config.d, those included that are not read
)

// file is one that was read.
type file struct {
	path string
	text []byte
}

// ConfigFile and DropInDir are where a MicroShift keeps its configuration below
// its directory.
func ConfigFile(dir string) string { return filepath.Join(dir, "config.yaml") }

// DropInDir is the directory of the files that add to ConfigFile's.
func DropInDir(dir string) string { return filepath.Join(dir, "config.d") }

// Present reports whether a host's MicroShift keeps its configuration in dir, or may
// do so, where that cannot be told: its internal addresses are never to be caught.
func Present(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR)
	}
	return info.IsDir()
}

// readFiles reads all files of the configuration, in MicroShift's order: the main
// one, and then those of config.d as filepath.WalkDir comes to them. watch names,
// whatever is returned beside it, where a change could be.
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
			return nil, watch, fmt.Errorf("read MicroShift's configuration: its files have more than %d bytes together: leave in %s what is needed", maxBytes, dir)
		}
		files = append(files, file{path, text})
	}
	return files, watch, nil
}

// listDropIns lists the files of config.d that count, and the directories below it. A
// link is read when it leads to a file, and not gone into when it leads to a
// directory, as WalkDir has it; nor is config.d itself when it is a link.
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

// explainPermission adds what to do when only root may read a file.
func explainPermission(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: the service is not root: make it world-readable (chmod a+rX)", err)
	}
	return err
}

// dirWalk goes through a directory as filepath.WalkDir does, which reads the whole of
// one before it tells of the first entry.
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
		return fmt.Errorf("%s has more than %d entries: leave in it what is needed", w.root, maxDirEntries)
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
			return fmt.Errorf("%s has more than %d directories: leave in it what is needed", w.root, maxDirs)
		}
		return w.readDir(path)
	case filepath.Ext(entry.Name()) == ".yaml":
		if w.paths = append(w.paths, path); len(w.paths) > maxFiles {
			return fmt.Errorf("%s has more than %d files that end in .yaml: put them into fewer", w.root, maxFiles)
		}
	}
	return nil
}
