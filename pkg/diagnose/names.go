// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

const (
	// nameTimeout bounds the request to the API server for a name, because other checks
	// wait for it.
	nameTimeout = 3 * time.Second

	apiPrefix         = "api."
	apiInternalPrefix = "api-int."
	maxKubeconfig     = 1 << 20
)

// findAPINames returns the names of the API: the configured ones, the one in the
// kubelet's kubeconfig, or those in the certificate of the API server.
func (h *host) findAPINames(ctx context.Context) []string {
	if len(h.names) > 0 {
		return h.names
	}
	if name := kubeconfigName(h.Kubeconfig); name != "" {
		return []string{name}
	}
	var questions []protocol.CertificateRequest
	for _, vip := range h.vips.API {
		questions = append(questions, protocol.CertificateRequest{Addr: netip.AddrPortFrom(vip, prober.APIPort)})
	}
	ctx, cancel := context.WithTimeout(ctx, nameTimeout)
	defer cancel()
	for _, p := range h.prober.Certificates(ctx, questions) {
		if p.Err != nil {
			continue
		}
		if names := publicNames(p.Certificate.Names); len(names) > 0 {
			return names
		}
	}
	return nil
}

// kubeconfigName is the external name of the API, derived from the internal one in a
// node's kubeconfig: api-int.<cluster> is api.<cluster> for external clients.
func kubeconfigName(path string) string {
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
		name := strings.ToLower(where.Hostname())
		if cluster, internal := strings.CutPrefix(name, apiInternalPrefix); internal {
			return apiPrefix + cluster
		}
		if strings.HasPrefix(name, apiPrefix) {
			return name
		}
	}
	return ""
}

// publicNames are the names in a certificate that external clients use for the API.
func publicNames(names []string) []string {
	var api []string
	for _, name := range names {
		name = strings.ToLower(name)
		if strings.HasPrefix(name, apiPrefix) && !slices.Contains(api, name) {
			api = append(api, name)
		}
	}
	return api[:min(len(api), maxNames)]
}

// maxNames bounds the names that are checked.
const maxNames = 4
