// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

const (
	maxChrony      = 64 << 10
	maxTimeServers = 4
	maxSourceFiles = 16
)

// Servers reads the servers of a chrony.conf and of its source directories, to
// which DHCP clients write (chrony.conf(5)).
func Servers(path string) []string {
	text, err := textfile.Read(path, maxChrony)
	if err != nil {
		return nil
	}
	names := serverDirectives(string(text))
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.EqualFold(fields[0], "sourcedir") {
			continue
		}
		files, err := filepath.Glob(filepath.Join(fields[1], "*.sources"))
		if err != nil {
			continue
		}
		for _, file := range files[:min(len(files), maxSourceFiles)] {
			if text, err := textfile.Read(file, maxChrony); err == nil {
				names = append(names, serverDirectives(string(text))...)
			}
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), maxTimeServers)]
}

// serverDirectives are the servers in some lines. Directives are case-insensitive.
func serverDirectives(text string) []string {
	var names []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch strings.ToLower(fields[0]) {
		case "server", "pool", "peer":
			names = append(names, fields[1])
		}
	}
	return names
}
