// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// Client and upstream share the cores with the proxy. They are programs in C that make few
// system calls, so that the proxy's part of the machine is as large as possible.
//
//go:embed lean/client.c
var clientSource string

//go:embed lean/upstream.c
var upstreamSource string

// Names of the two programs.
const (
	clientProgram   = "bench-client"
	upstreamProgram = "bench-upstream"
)

// compileLean compiles client and upstream into the client's directory.
func (r *rig) compileLean(ctx context.Context) error {
	for name, source := range map[string]string{clientProgram: clientSource, upstreamProgram: upstreamSource} {
		path := filepath.Join(r.client.Dir, name)
		if err := os.WriteFile(path+".c", []byte(source), 0o600); err != nil {
			return fmt.Errorf("write the source of %s: %w", name, err)
		}
		_, err := lab.Output(ctx, nil, "", "gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", path, path+".c")
		if err != nil {
			return fmt.Errorf("compile %s (test/install-packages bench installs the compiler): %w", name, err)
		}
		r.programs[name] = path
	}
	return nil
}
