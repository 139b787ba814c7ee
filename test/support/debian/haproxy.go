// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// haproxySuite is a release with HAProxy 3.2, as in OpenShift's routers from 4.23 on, or a later one: testing.
// [Suite] has 2.6.
const haproxySuite = "forky"

// HAProxy returns the command of HAProxy 3.2, which uses the libraries of its own tree. It creates the
// tree in cache when it is missing, which takes seconds, root and the network. Several processes may
// call HAProxy concurrently.
func HAProxy(ctx context.Context, cache string) (command []string, err error) {
	tree := filepath.Join(cache, "haproxy-"+haproxySuite)
	if _, err := os.Stat(tree); errors.Is(err, fs.ErrNotExist) {
		if err := unpackHAProxy(ctx, cache, tree); err != nil {
			return nil, fmt.Errorf("create the tree of HAProxy: %w", err)
		}
	}
	loaders, err := filepath.Glob(filepath.Join(tree, "usr/lib/*-linux-gnu*/ld-linux-*.so.*"))
	if err != nil || len(loaders) != 1 {
		return nil, fmt.Errorf("%s has the dynamic loaders %q, want one: %w", tree, loaders, err)
	}
	return []string{loaders[0], "--library-path", filepath.Dir(loaders[0]), filepath.Join(tree, "usr/sbin/haproxy")}, nil
}

// unpackHAProxy creates the tree under another name and renames it, so that it is complete or absent.
func unpackHAProxy(ctx context.Context, cache, tree string) error {
	if err := os.MkdirAll(cache, 0o755); err != nil { //nolint:gosec // a repository's directory
		return err //nolint:wrapcheck // the caller adds what it is for
	}
	aside, err := os.MkdirTemp(cache, ".haproxy-")
	if err != nil {
		return err //nolint:wrapcheck // the caller adds what it is for
	}
	// A mirror of testing can be older than the index is valid.
	err = Bootstrap(ctx, haproxySuite, aside, "--variant=extract", "--include=haproxy",
		`--aptopt=Acquire::Check-Valid-Until "false"`)
	if err == nil {
		err = os.Rename(aside, tree)
	}
	if errors.Is(err, fs.ErrExist) { // another process was faster
		err = nil
	}
	return errors.Join(err, os.RemoveAll(aside))
}
