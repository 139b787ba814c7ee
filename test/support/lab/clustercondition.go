// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// ocOfReports is an oc that lists the nodes, and prints a stored report of each.
const ocOfReports = `#!/bin/sh
case "$1 $2 $3" in
"get nodes "*) exec cat "${0%/*}/nodes" ;;
"debug --quiet node/"*) exec cat "${0%/*}/${3#node/}" ;;
esac
exit 1
`

// ClusterCondition runs `oc-http01 condition` with the reports of hosts by name, in a
// directory. It returns what the program prints, and its exit code.
func ClusterCondition(ctx context.Context, dir string, reports map[string]string) (out []byte, code int, err error) {
	program, err := BuildCommand(ctx, "oc-http01")
	if err != nil {
		return nil, 0, err
	}
	var nodes []string
	for name, text := range reports {
		nodes = append(nodes, fmt.Sprintf(`{"metadata": {"name": %q}}`, name))
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	slices.Sort(nodes)
	list := `{"kind": "List", "items": [` + strings.Join(nodes, ",") + "]}"
	err = errors.Join(err, os.WriteFile(filepath.Join(dir, "nodes"), []byte(list), 0o600),
		os.WriteFile(filepath.Join(dir, "oc"), []byte(ocOfReports), 0o700)) //nolint:gosec // a program
	if err != nil {
		return nil, 0, fmt.Errorf("write the reports: %w", err)
	}
	cmd := exec.CommandContext(ctx, program, "condition")
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	out, err = cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) == 0 {
		return out, exit.ExitCode(), nil
	}
	return out, 0, err
}
