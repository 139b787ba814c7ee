// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// servicePort is the port of the service in its default configuration.
const servicePort = 8888

// variant selects how the service runs.
type variant struct {
	before bool // the binary to compare with
	nginx  bool // nginx as the upstream
	secure bool // TLS to it
}

// binary returns the binary of a variant.
func (r *rig) binary(v variant) string {
	if v.before {
		return r.Before
	}
	return r.Binary
}

func startService(v variant) func(context.Context, *rig) (*runningProxy, error) {
	return func(ctx context.Context, r *rig) (*runningProxy, error) { return r.startService(ctx, v) }
}

// startService runs http01-proxyd as on a node: it watches addresses, owns its table, and
// receives connections that the kernel redirects.
func (r *rig) startService(ctx context.Context, v variant) (*runningProxy, error) {
	for _, config := range r.serviceConfigs(v) {
		s, err := r.front.StartService(ctx, lab.ServiceOptions{Binary: r.binary(v), Config: config})
		if err != nil {
			return nil, err
		}
		refused := false
		_, err = s.Await(ctx, "Serving", func(seen lab.Status) error {
			refused = seen.Condition().Reason == "InvalidConfig"
			if refused || seen.Condition().Reason == "Serving" {
				return nil
			}
			return fmt.Errorf("reason is %s: %s", seen.Condition().Reason, seen.Condition().Message)
		})
		if err == nil && !refused {
			r.accepted[v] = config
			return &runningProxy{pid: s.PID(), live: s.Alive, stop: s.Stop}, nil
		}
		if err := errors.Join(err, s.Stop(context.WithoutCancel(ctx))); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("http01-proxyd rejects its configuration: update serviceConfigs")
}

// serviceConfigs returns configurations in the order of the attempts. An older service rejects
// the key limits.perSource and is compared without it. All clients share one address.
func (r *rig) serviceConfigs(v variant) []string {
	if text := r.accepted[v]; text != "" {
		return []string{text}
	}
	upstream := r.upstream
	if v.nginx {
		upstream = r.nginx
	}
	text := fmt.Sprintf("vips:\n  api: [%q]\n  ingress: [%q]\nlimits:\n  maxConnections: %d\n  headTimeout: 1m\n",
		r.vip, upstream, r.maxOpen())
	if v.secure {
		text = fmt.Sprintf("upstream: {scheme: https, trustedCA: %q}\n", r.trust) + text
	}
	return []string{text + "  perSource: 0\n", text}
}

func serviceVersion(v variant) func(context.Context, *rig) (string, error) {
	return func(ctx context.Context, r *rig) (string, error) {
		text, err := r.front.Run(ctx, r.binary(v), "version")
		return strings.TrimSpace(text), err
	}
}
