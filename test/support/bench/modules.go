// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	_ "embed"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

//go:embed caddy.json.tmpl
var caddyTemplate string

// caddyFolder is a separate Go module, because Caddy has many dependencies.
const caddyFolder = "support/bench/caddy"

func startCaddy(ctx context.Context, r *rig) (*runningProxy, error) {
	binary, err := r.buildProgram(ctx, caddyFolder)
	if err != nil {
		return nil, err
	}
	config, err := r.write(r.front, "caddy.json", caddyTemplate)
	if err != nil {
		return nil, err
	}
	// Caddy writes its identity below XDG_DATA_HOME, by default into the home directory.
	return r.startProgram("caddy", "env", "XDG_DATA_HOME="+filepath.Dir(config), binary, config)
}

// buildProgram compiles the program in a folder once. A compiler that runs during a
// measurement would distort it, so callers query versions before the first round.
func (r *rig) buildProgram(ctx context.Context, folder string) (string, error) {
	if path := r.programs[folder]; path != "" {
		return path, nil
	}
	path, err := lab.BuildProgram(ctx, folder)
	if err != nil {
		return "", err
	}
	r.programs[folder] = path
	return path, nil
}

func caddyVersion(ctx context.Context, r *rig) (string, error) {
	binary, err := r.buildProgram(ctx, caddyFolder)
	if err != nil {
		return "", err
	}
	text, err := r.front.Run(ctx, binary)
	return strings.TrimSpace(text), err
}

// pocFolder is the folder of the proof of concept.
const pocFolder = "support/bench/poc"

func startPoC(ctx context.Context, r *rig) (*runningProxy, error) {
	binary, err := r.buildProgram(ctx, pocFolder)
	if err != nil {
		return nil, err
	}
	return r.startProgram("poc", binary, "--listen", r.vip.String()+":80", "--upstream", "http://"+r.upstream.String()+":80")
}

func pocVersion(ctx context.Context, r *rig) (string, error) {
	if _, err := r.buildProgram(ctx, pocFolder); err != nil {
		return "", err
	}
	return "net/http/httputil of " + runtime.Version(), nil // this program and poc use the same Go version
}
