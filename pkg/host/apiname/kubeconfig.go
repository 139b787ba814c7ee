// SPDX-License-Identifier: Apache-2.0

package apiname

import (
	"net/url"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

const maxKubeconfig = 1 << 20

// ReadKubeconfig returns the external name of the API from the kubeconfig of a node; empty if
// that contains none.
func ReadKubeconfig(path string) string {
	for _, host := range serversIn(path) {
		if name, ok := externalName(host); ok {
			return name
		}
	}
	return ""
}

// ReadInternal returns the name by which the kubelet reaches the API from the kubeconfig of
// a node, api-int.<cluster>; empty if the kubelet uses another name.
func ReadInternal(path string) string {
	for _, host := range serversIn(path) {
		if name := strings.TrimSuffix(strings.ToLower(host), "."); config.IsInternalAPIName(name) {
			return name
		}
	}
	return ""
}

// serversIn returns the hosts of the API servers in a kubeconfig.
func serversIn(path string) (hosts []string) {
	text, err := textfile.Read(path, maxKubeconfig)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		_, server, ok := strings.Cut(line, "server:")
		if !ok {
			continue
		}
		if where, err := url.Parse(strings.Trim(server, " \t\r\n\"'")); err == nil {
			hosts = append(hosts, where.Hostname())
		}
	}
	return hosts
}
