// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

type fingerprint [sha256.Size]byte

// reading is a Discovery with the data that Reader needs to assess it.
type reading struct {
	Discovery
	content        fingerprint // of everything that was read, in order
	missingNewline bool        // see preprocessor.missingNewline
}

type loader struct {
	files []string
	total int
	sum   hash.Hash
}

func newLoader() *loader { return &loader{sum: sha256.New()} }

func readFile(path string) (reading, error) {
	host, err := os.Hostname()
	if err != nil {
		return reading{}, fmt.Errorf("read the host name, keepalived's config ID: %w", err)
	}
	configID, _, _ := strings.Cut(host, ".")
	return readWithConfigID(path, configID)
}

func readWithConfigID(path, configID string) (reading, error) {
	ld := newLoader()
	r, err := ld.read(path, configID)
	r.Files = ld.files
	ld.sum.Sum(r.content[:0])
	return r, err
}

func (ld *loader) read(path, configID string) (reading, error) {
	ld.addPath(path)
	data, err := ld.readFile(path)
	if err != nil {
		return reading{}, err
	}
	found, err := parse(source{path: path, dir: filepath.Dir(path), data: data}, configID, ld.include)
	return newReading(path, found, err)
}

func newReading(path string, found parseResult, err error) (reading, error) {
	r := reading{missingNewline: found.missingNewline}
	r.Ignored = found.ignored
	if err != nil {
		return r, err
	}
	r.Instances = found.instances
	r.VIPs = VIPs{API: collectVIPs(found.instances, RoleAPI), Ingress: collectVIPs(found.instances, RoleIngress)}
	if len(r.VIPs.API) == 0 {
		return r, fmt.Errorf("%s: %w", path, ErrNoAPIInstance)
	}
	return r, nil
}

func (ld *loader) addPath(path string) {
	if !slices.Contains(ld.files, path) {
		ld.files = append(ld.files, path)
	}
}

// readFile reads a whole regular file. It does not block on a FIFO.
func (ld *loader) readFile(path string) ([]byte, error) {
	data, err := textfile.Read(path, min(maxFileBytes, maxTotalBytes-ld.total))
	if errors.Is(err, textfile.ErrTooLong) {
		err = fmt.Errorf("%w (%d for a file, %d for all): is it a keepalived.conf?", err, maxFileBytes, maxTotalBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("read keepalived's configuration: %w", err)
	}
	ld.total += len(data)
	ld.addToDigest(path, data)
	return data, nil
}

func (ld *loader) addToDigest(path string, data []byte) {
	for _, part := range [][]byte{[]byte(path), data} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		ld.sum.Write(size[:])
		ld.sum.Write(part)
	}
}

func (ld *loader) include(dir, pattern string) ([]source, error) {
	if !strings.HasPrefix(pattern, "/") {
		// Not filepath.Join: x/../y equals y only if x is not a symbolic link.
		pattern = dir + "/" + pattern
	}
	paths, searched, err := expandGlob(pattern)
	for _, path := range searched {
		ld.addPath(path)
	}
	if err != nil {
		return nil, err
	}
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
		out = append(out, source{path: path, dir: path[:strings.LastIndexByte(path, '/')+1], data: data})
	}
	return out, nil
}

// includable applies keepalived's rule: files that are not regular or that are executable are
// ignored (check_glob_file of lib/parser.c). It keeps a file that cannot be examined, so that
// reading it reports the error.
func includable(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR)
	}
	return info.Mode().IsRegular() && info.Mode().Perm()&0o111 == 0
}
