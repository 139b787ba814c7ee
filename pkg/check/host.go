// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"os"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/probe"
	"github.com/http01-proxyd/http01-proxyd/pkg/status"
)

// Options are what the command line decides.
type Options struct {
	ConfigPath        string
	StatusSocket      string
	Manifests         string
	DisabledManifests string
	Name              string // of the API; empty: found out
	Token             string // of a challenge to trace; empty: none
}

// host is what the checks share: what was found before they began. They only
// read it.
type host struct {
	Options
	name      string
	config    config.Config  // the file's, or the defaults when it is refused
	configErr error          // why the file is refused
	service   *status.Report // nil when no service answers
	network   *probe.Client
}

// look finds out what the checks share.
func look(ctx context.Context, o Options) (*host, error) {
	h := &host{Options: o, config: config.Default()}
	var err error
	if h.name, err = os.Hostname(); err != nil {
		return nil, fmt.Errorf("read the host's name: %w", err)
	}
	if text, err := config.Read(o.ConfigPath); err != nil {
		h.configErr = err
	} else if parsed, err := config.Parse(o.ConfigPath, text); err != nil {
		h.configErr = err
	} else {
		h.config = parsed
	}
	if report, err := status.Fetch(ctx, o.StatusSocket); err == nil {
		h.service = &report
	}
	if h.network, err = probe.Start(); err != nil {
		return nil, err
	}
	return h, nil
}

func (h *host) close() { h.network.Close() }
