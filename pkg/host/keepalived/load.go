// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

// Limits on the cost of reading the configuration. OpenShift's file is 4 KiB long and includes
// no other.
const (
	maxBytes        = 1 << 20 // all files together
	maxFiles        = 256     // all files together
	maxDirEntries   = 4096    // of a directory that a pattern searches
	maxIncludeDepth = 8

	// maxReadTime bounds what slow storage adds to the limits above.
	maxReadTime = 2 * time.Second
)

type source struct{ path, text string }

// loader reads the files of a configuration.
type loader struct {
	paths    []string
	files    int
	content  strings.Builder // of everything that was read, in order
	deadline time.Time
}

// readFile also returns all text that was read, to notice changes.
func readFile(path string) (d Discovery, content string, err error) {
	ld := &loader{deadline: time.Now().Add(maxReadTime)}
	text, err := ld.read(path, false)
	if err == nil {
		d.VIPs, err = parse(source{path, text}, ld.include)
	}
	d.Files = ld.paths
	return d, ld.content.String(), err
}

// errIgnored reports a file that an include line ignores.
var errIgnored = errors.New("no file to include")

// read reads a whole regular file.
func (ld *loader) read(path string, included bool) (string, error) {
	if time.Now().After(ld.deadline) {
		return "", fmt.Errorf("reading the files takes longer than %v", maxReadTime)
	}
	data, mode, err := textfile.ReadMode(path, max(0, maxBytes-ld.content.Len()))
	if included && (errors.Is(err, textfile.ErrNotRegular) || mode.Perm()&0o111 != 0) {
		return "", errIgnored
	}
	if !slices.Contains(ld.paths, path) {
		ld.paths = append(ld.paths, path)
	}
	if ld.files++; ld.files > maxFiles {
		return "", fmt.Errorf("more than %d files", maxFiles)
	}
	if errors.Is(err, textfile.ErrTooLong) {
		err = fmt.Errorf("the files have more than %d bytes: is %s a keepalived.conf?", maxBytes, path)
	}
	if err != nil {
		return "", fmt.Errorf("read keepalived's configuration: %w", err)
	}
	fmt.Fprintf(&ld.content, "%s\n%s", path, data)
	return string(data), nil
}

// include returns the files that an include line of a file names, in the order in which they are
// read. Only the name of a file can contain wildcards. They do not match a leading dot. Absent files,
// those that are not regular, and executable ones are ignored (check_glob_file of lib/parser.c).
func (ld *loader) include(from, pattern string) (sources []source, err error) {
	if !strings.HasPrefix(pattern, "/") {
		// This does not use filepath.Join, because x/../y equals y only if x is not a symbolic
		// link.
		pattern = filepath.Dir(from) + "/" + pattern
	}
	dir, name := filepath.Split(pattern)
	names := []string{name}
	if strings.ContainsAny(name, "*?[") {
		if names, err = ld.list(filepath.Clean(dir), name); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		path := dir + name
		text, err := ld.read(path, true)
		switch {
		case err == nil:
			sources = append(sources, source{path, text})
		case !isAbsent(err) && !errors.Is(err, errIgnored):
			return nil, err
		}
	}
	return sources, nil
}

// list returns the names in a directory that match a pattern, sorted.
func (ld *loader) list(dir, pattern string) (matching []string, err error) {
	ld.paths = append(ld.paths, dir)
	names, err := textfile.Within(dir, func() ([]string, error) {
		f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return f.Readdirnames(maxDirEntries)
	})
	switch {
	case isAbsent(err):
		return nil, nil
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case len(names) == maxDirEntries:
		return nil, fmt.Errorf("%s has %d entries or more", dir, maxDirEntries)
	}
	slices.Sort(names)
	for _, name := range names {
		matches, err := filepath.Match(pattern, name)
		if err != nil {
			return nil, err
		}
		if matches && (name[0] != '.' || pattern[0] == '.') {
			matching = append(matching, name)
		}
	}
	return matching, nil
}

func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
