// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
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

// Limits on the cost of reading the configuration. OpenShift's file has 4 KiB and no include.
const (
	maxFileBytes    = 1 << 20 // one file
	maxTotalBytes   = 4 << 20 // all files together
	maxFiles        = 256     // all files together
	maxDirEntries   = 4096    // of a directory that a pattern searches
	maxIncludeDepth = 8

	// maxReadTime bounds what slow storage adds to the limits above.
	maxReadTime = 2 * time.Second
)

var errReadTime = fmt.Errorf("reading the files takes longer than %v", maxReadTime)

type fingerprint [sha256.Size]byte

// reading is a Discovery with the data that Reader needs to assess it.
type reading struct {
	Discovery
	content        fingerprint // of everything that was read, in order
	missingNewline bool        // a file ends in text without a newline
}

type source struct {
	path string
	data []byte
}

// includer returns the files that an include line of a file names, in the order in which they
// are read. Absent files are not an error.
type includer func(from, pattern string) ([]source, error)

type loader struct {
	paths    []string
	files    int
	bytes    int
	deadline time.Time
	sum      hash.Hash
}

func newLoader() *loader {
	return &loader{sum: sha256.New(), deadline: time.Now().Add(maxReadTime)}
}

func readFile(path string) (reading, error) {
	ld := newLoader()
	var r reading
	ld.addPath(path)
	data, err := ld.readFile(path)
	if err == nil {
		r, err = parse(source{path: path, data: data}, ld.include)
	}
	r.Files = ld.paths
	ld.sum.Sum(r.content[:0])
	return r, err
}

func (ld *loader) addPath(path string) {
	if !slices.Contains(ld.paths, path) {
		ld.paths = append(ld.paths, path)
	}
}

// readFile reads a whole regular file. It does not block on a FIFO.
func (ld *loader) readFile(path string) ([]byte, error) {
	if time.Now().After(ld.deadline) {
		return nil, errReadTime
	}
	if ld.files++; ld.files > maxFiles {
		return nil, fmt.Errorf("more than %d files", maxFiles)
	}
	data, err := textfile.Read(path, min(maxFileBytes, maxTotalBytes-ld.bytes))
	if errors.Is(err, textfile.ErrTooLong) {
		err = fmt.Errorf("%w (%d for a file, %d for all): is it a keepalived.conf?", err, maxFileBytes, maxTotalBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("read keepalived's configuration: %w", err)
	}
	ld.bytes += len(data)
	fmt.Fprintf(ld.sum, "%d %s %d %s ", len(path), path, len(data), data)
	return data, nil
}

func (ld *loader) include(from, pattern string) ([]source, error) {
	paths, err := ld.glob(from, pattern)
	var out []source
	for _, path := range paths {
		ld.addPath(path)
		if !includable(path) {
			continue
		}
		data, err := ld.readFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed after it was listed
		}
		if err != nil {
			return nil, err
		}
		out = append(out, source{path: path, data: data})
	}
	return out, err
}

// glob returns the files that a pattern in a file matches. Only the name of a file can contain
// wildcards. They do not match a leading dot.
func (ld *loader) glob(from, pattern string) (paths []string, err error) {
	if !strings.HasPrefix(pattern, "/") {
		// Not filepath.Join: x/../y equals y only if x is not a symbolic link.
		pattern = filepath.Dir(from) + "/" + pattern
	}
	at := strings.LastIndexByte(pattern, '/') + 1
	dir, name := pattern[:at], pattern[at:]
	if !strings.ContainsAny(name, "*?[") {
		return []string{pattern}, nil
	}
	dir = dir[:max(1, at-1)]
	ld.addPath(dir)
	entries, err := readDir(dir)
	switch {
	case isAbsent(err):
		return nil, nil
	case err == nil && len(entries) > maxDirEntries:
		err = fmt.Errorf("%s has more than %d entries", dir, maxDirEntries)
	}
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		matches, err := filepath.Match(name, entry.Name())
		if err != nil {
			return nil, err
		}
		if matches && (entry.Name()[0] != '.' || name[0] == '.') {
			paths = append(paths, filepath.Join(dir, entry.Name()))
		}
	}
	return paths, nil
}

// readDir returns the entries of a directory by name, at most one more than maxDirEntries.
func readDir(path string) ([]os.DirEntry, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	entries, err := dir.ReadDir(maxDirEntries + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// includable applies keepalived's rule: files that are not regular or that are executable are
// ignored (check_glob_file of lib/parser.c). It keeps a file that cannot be examined, so that
// reading it reports the error.
func includable(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return !isAbsent(err)
	}
	return info.Mode().IsRegular() && info.Mode().Perm()&0o111 == 0
}
