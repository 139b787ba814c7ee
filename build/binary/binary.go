// SPDX-License-Identifier: Apache-2.0

package binary

import (
	"debug/buildinfo"
	"fmt"
	"path"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"
)

// Binary is one program for one platform.
type Binary struct {
	File     string // its path
	Program  string // the last element of its main package's path
	OS, Arch string // as GOOS and GOARCH
	Commit   Commit
	Info     *debug.BuildInfo
}

// Commit is the recorded source of a binary. Without a git clone no field is set.
type Commit struct {
	Version  string    // the tag, or a pseudo-version of the commit; "(devel)" if unknown
	Revision string    // the commit's hash, with "-dirty" if there were uncommitted changes
	Time     time.Time // the commit's
}

// Dirty reports whether the binary was built from an unknown commit or with uncommitted
// changes, so that it cannot be built again.
func (c Commit) Dirty() bool { return c.Revision == "" || strings.HasSuffix(c.Revision, dirty) }

// dirty is the suffix of a revision with uncommitted changes.
const dirty = "-dirty"

// Read reads one binary, of any platform.
func Read(file string) (Binary, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return Binary{}, fmt.Errorf("cannot read what %s was built from: %w", file, err)
	}
	setting := make(map[string]string)
	for _, s := range info.Settings {
		setting[s.Key] = s.Value
	}
	b := Binary{
		File:    file,
		Program: path.Base(info.Path),
		OS:      setting["GOOS"],
		Arch:    setting["GOARCH"],
		Info:    info,
		Commit:  Commit{Version: info.Main.Version, Revision: setting["vcs.revision"]},
	}
	if b.Commit.Version == "" {
		b.Commit.Version = "(devel)"
	}
	if setting["vcs.modified"] == "true" {
		b.Commit.Revision += dirty
	}
	if at := setting["vcs.time"]; at != "" {
		if b.Commit.Time, err = time.Parse(time.RFC3339, at); err != nil {
			return Binary{}, fmt.Errorf("cannot read the commit's time in %s: %w", file, err)
		}
	}
	return b, nil
}

// Name returns the file name of the binary in a release.
func (b Binary) Name() string {
	name := strings.Join([]string{b.Program, b.OS, b.Arch}, "-")
	if b.OS == "windows" {
		name += ".exe"
	}
	return name
}

// ReadAll reads the binaries in dir whose file names match the patterns
// ([filepath.Match]), in the order of patterns and names. Each must match its file
// name, and all must be of one commit and one Go release.
func ReadAll(dir string, patterns ...string) ([]Binary, error) {
	var all []Binary
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, fmt.Errorf("cannot list %s in %s: %w", pattern, dir, err)
		}
		for _, file := range files {
			b, err := Read(file)
			if err != nil {
				return nil, err
			}
			if err := b.checkConsistent(all); err != nil {
				return nil, fmt.Errorf("%s %w; run make binaries", file, err)
			}
			all = append(all, b)
		}
	}
	return all, nil
}

// checkConsistent reports whether the binary matches its name and the other binaries.
func (b Binary) checkConsistent(others []Binary) error {
	if name := b.Name(); filepath.Base(b.File) != name {
		return fmt.Errorf("has the contents of %s", name)
	}
	if len(others) == 0 {
		return nil
	}
	first := others[0]
	if b.Commit != first.Commit || b.Info.Main.Path != first.Info.Main.Path {
		return fmt.Errorf("was built from %s and %s from %s", b.origin(), first.File, first.origin())
	}
	if b.Info.GoVersion != first.Info.GoVersion {
		return fmt.Errorf("was built by %s and %s by %s", b.Info.GoVersion, first.File, first.Info.GoVersion)
	}
	return nil
}

func (b Binary) origin() string {
	revision := b.Commit.Revision
	if revision == "" {
		revision = "no known commit"
	}
	return fmt.Sprintf("%s %s (%s)", b.Info.Main.Path, b.Commit.Version, revision)
}
