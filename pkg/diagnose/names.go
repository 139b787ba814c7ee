// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/certificate"
)

const (
	// nameTimeout bounds the request to the API server for a name, because other checks
	// wait for it.
	nameTimeout = 3 * time.Second
	// maxNames bounds the names that are checked.
	maxNames = 4
)

// findAPINames returns the names of the API: the configured ones, the one in the
// kubelet's kubeconfig, the accepted ones, or those in the certificate of the API server.
func (o *observations) findAPINames(ctx context.Context) []string {
	if len(o.names) > 0 {
		return o.names
	}
	if names := o.kubeconfigNames(); len(names) > 0 {
		return names
	}
	if o.accepted.Limited() {
		return withoutAddresses(o.accepted.Names)
	}
	ctx, cancel := context.WithTimeout(ctx, nameTimeout)
	defer cancel()
	for _, p := range o.prober.Certificates(ctx, certificate.Requests(o.VIPs.API, nil)) {
		if p.Err != nil {
			continue
		}
		if names := publicNames(p.Certificate.Names); len(names) > 0 {
			return names
		}
	}
	return nil
}

// publicNames are the names in a certificate that external clients use for the API.
func publicNames(names []string) []string {
	var api []string
	for _, name := range names {
		name = strings.ToLower(name)
		if strings.HasPrefix(name, "api.") && !slices.Contains(api, name) {
			api = append(api, name)
		}
	}
	return api[:min(len(api), maxNames)]
}
