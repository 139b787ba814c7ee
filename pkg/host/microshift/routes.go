// SPDX-License-Identifier: Apache-2.0

package microshift

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxRouteBytes limits how much of a routing table is read. In the IPv4 table the default
// routes come first.
const maxRouteBytes = 1 << 20

// DefaultRouteLinks returns the links of the default routes of both families, as the kernel
// lists them in dir (/proc/net). If the kernel lacks a family, its list is empty. As in
// k8s.io/apimachinery the mask is ignored, so a route to 0.0.0.0/1, which VPNs add, counts as
// well.
func DefaultRouteLinks(dir string) (v4, v6 []string, err error) {
	v4, err4 := readDefaultLinks(filepath.Join(dir, "route"), func(f []string) (string, bool) {
		if len(f) < 8 || f[1] != zeros(8) {
			return "", false
		}
		return f[0], true
	})
	v6, err6 := readDefaultLinks(filepath.Join(dir, "ipv6_route"), func(f []string) (string, bool) {
		// A route without a gateway is the kernel's own entry for unreachable destinations.
		if len(f) < 10 || f[0] != zeros(32) || f[4] == zeros(32) {
			return "", false
		}
		return f[9], true
	})
	return v4, v6, errors.Join(err4, err6)
}

func zeros(n int) string { return strings.Repeat("0", n) }

func readDefaultLinks(path string, is func(fields []string) (link string, ok bool)) (links []string, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the default routes: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines := bufio.NewScanner(io.LimitReader(f, maxRouteBytes))
	for lines.Scan() {
		if link, ok := is(strings.Fields(lines.Text())); ok && !slices.Contains(links, link) {
			links = append(links, link)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the default routes: %s: %w", path, err)
	}
	return links, nil
}
