// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
)

const (
	document = "docs/install.md"
	mark     = "```sh packaging\n" // test/suites/delivery runs blocks marked sh
)

// blocks returns the command blocks of a section for this machine.
func blocks(section string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(host.Repository(), document))
	if err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	_, rest, _ := strings.Cut(string(text), "\n### "+section+"\n")
	rest, _, _ = strings.Cut(rest, "\n### ")
	var all []string
	for _, block := range strings.Split(rest, mark)[1:] {
		block, _, _ = strings.Cut(block, "```")
		all = append(all, strings.ReplaceAll(block, ".x86_64.", "."+rpmArchitecture+"."))
	}
	return all, nil
}

// runDocumented runs a block of the document on the host as written.
func (s *testbed) runDocumented(ctx context.Context, section string, i int, env ...string) error {
	all, err := blocks(section)
	if err != nil {
		return err
	}
	if i >= len(all) {
		return fmt.Errorf("%s: %q has %d blocks marked sh packaging, want at least %d", document, section, len(all), i+1)
	}
	args := append([]string{"--chdir=" + source, "ARCHITECTURE=" + architecture}, env...)
	_, err = s.edge.Run(ctx, "env", append(args, "sh", "-ec", all[i])...)
	return err
}

// TestEveryBlockIsRun holds that the tests run every block of the document.
func TestEveryBlockIsRun(t *testing.T) {
	for section, want := range map[string]int{"By RPM": 3, "In a bootc image": 1} {
		all, err := blocks(section)
		must(t, err)
		if len(all) != want {
			t.Errorf("%s: %q has %d blocks, want %d", document, section, len(all), want)
		}
	}
}
