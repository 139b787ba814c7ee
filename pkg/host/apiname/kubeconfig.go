// SPDX-License-Identifier: Apache-2.0

package apiname

import (
	"net/url"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

const maxKubeconfig = 1 << 20

// ReadKubeconfig returns the external name of the API from the kubeconfig of a node; empty
// if it has none.
func ReadKubeconfig(path string) string {
	text, err := textfile.Read(path, maxKubeconfig)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		_, server, ok := strings.Cut(line, "server:")
		if !ok {
			continue
		}
		where, err := url.Parse(strings.Trim(server, " \t\r\n\"'"))
		if err != nil {
			continue
		}
		if name, ok := externalName(where.Hostname()); ok {
			return name
		}
	}
	return ""
}
