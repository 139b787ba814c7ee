// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// Tree has the files of packages of another release, whose programs use the libraries of the tree.
type Tree struct{ dir, loader string }

// Command returns the command of a program, which is a path in the tree.
func (t Tree) Command(program string) []string {
	return []string{t.loader, "--library-path", filepath.Dir(t.loader), filepath.Join(t.dir, program)}
}

// Moved returns the files of a program by their names in a folder of another system, where the program starts
// with LD_LIBRARY_PATH=folder: the program, which names the loader in that folder, its libraries and the loader.
// So /proc/self/exe is the program, which podman starts again.
func (t Tree) Moved(ctx context.Context, program, folder string) (map[string]string, error) {
	command := t.Command(program)
	list := append([]string{"--list"}, command[1:]...)
	out, err := exec.CommandContext(ctx, t.loader, list...).Output()
	if err != nil {
		return nil, fmt.Errorf("list the libraries of %s: %w", program, err)
	}
	files := map[string]string{}
	for _, found := range append(regexp.MustCompile(`=> (/\S+)`).FindAllStringSubmatch(string(out), -1),
		[]string{"", t.loader}, []string{"", filepath.Join(t.dir, program)}) {
		text, err := os.ReadFile(found[1])
		if err != nil {
			return nil, fmt.Errorf("read a file of %s: %w", program, err)
		}
		files[filepath.Base(found[1])] = string(text)
	}
	name := filepath.Base(program)
	files[name], err = withLoader(files[name], filepath.Join(folder, filepath.Base(t.loader)))
	return files, err
}

// withLoader returns a program that names another dynamic loader. Its path must not be longer than the old one.
func withLoader(program, loader string) (string, error) {
	parsed, err := elf.NewFile(strings.NewReader(program))
	if err != nil {
		return "", fmt.Errorf("read a program: %w", err)
	}
	for _, p := range parsed.Progs {
		if p.Type == elf.PT_INTERP && uint64(len(loader)) < p.Filesz {
			padded := loader + strings.Repeat("\x00", int(p.Filesz)-len(loader)) //nolint:gosec // a path's length
			return program[:p.Off] + padded + program[p.Off+p.Filesz:], nil
		}
	}
	return "", fmt.Errorf("%s does not fit into the program", loader)
}

// unpack returns a tree in cache, and creates it when it is missing.
func unpack(ctx context.Context, cache, suite, packages string, options ...string) (t Tree, err error) {
	name := strings.ReplaceAll(packages, ",", "-")
	t.dir = filepath.Join(cache, name+"-"+suite)
	if _, err := os.Stat(t.dir); errors.Is(err, fs.ErrNotExist) {
		options = append(options, "--variant=extract", "--include="+packages)
		if err := t.create(ctx, filepath.Join(cache, "."+name+"-"), suite, options); err != nil {
			return t, fmt.Errorf("create the tree of %s: %w", packages, err)
		}
	}
	loaders, err := filepath.Glob(filepath.Join(t.dir, "usr/lib/*-linux-gnu*/ld-linux-*.so.*"))
	if err != nil || len(loaders) != 1 {
		return t, fmt.Errorf("%s has the dynamic loaders %q, want one: %w", t.dir, loaders, err)
	}
	t.loader = loaders[0]
	return t, nil
}

// create creates the tree under another name and renames it, so that it is complete or absent.
func (t Tree) create(ctx context.Context, prefix, suite string, options []string) error {
	cache := filepath.Dir(prefix)
	if err := os.MkdirAll(cache, 0o755); err != nil { //nolint:gosec // a repository's directory
		return err //nolint:wrapcheck // the caller adds what it is for
	}
	aside, err := os.MkdirTemp(cache, filepath.Base(prefix))
	if err != nil {
		return err //nolint:wrapcheck // the caller adds what it is for
	}
	err = Bootstrap(ctx, suite, aside, options...)
	if err == nil {
		err = os.Rename(aside, t.dir)
	}
	if errors.Is(err, fs.ErrExist) { // another process was faster
		err = nil
	}
	return errors.Join(err, os.RemoveAll(aside))
}
