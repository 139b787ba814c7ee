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
	rpmGuide   = "docs/install/rpm.md"
	debGuide   = "docs/install/deb.md"
	bootcGuide = "docs/install/bootc.md"
	mark       = "```sh packaging\n" // test/suites/delivery runs blocks marked sh
)

// blocks returns the command blocks of a document for this machine.
func blocks(document string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(host.Repository(), document))
	if err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	var all []string
	for _, block := range strings.Split(string(text), mark)[1:] {
		block, _, _ = strings.Cut(block, "```")
		block = strings.ReplaceAll(block, ".x86_64.", "."+rpmArchitecture+".")
		all = append(all, strings.ReplaceAll(block, "_amd64.", "_"+architecture+"."))
	}
	return all, nil
}

// runDocumented runs a block of a document on the host as written.
func (s *testbed) runDocumented(ctx context.Context, document string, i int, env ...string) error {
	all, err := blocks(document)
	if err != nil {
		return err
	}
	if i >= len(all) {
		return fmt.Errorf("%s has %d blocks marked sh packaging, want at least %d", document, len(all), i+1)
	}
	args := append([]string{"--chdir=" + source, "ARCHITECTURE=" + architecture}, env...)
	_, err = s.edge.Run(ctx, "env", append(args, "sh", "-ec", all[i])...)
	return err
}

// TestEveryBlockIsRun holds that the tests run every block of the documents.
func TestEveryBlockIsRun(t *testing.T) {
	for document, want := range map[string]int{rpmGuide: 6, debGuide: 3, bootcGuide: 1} {
		all, err := blocks(document)
		must(t, err)
		if len(all) != want {
			t.Errorf("%s has %d blocks, want %d", document, len(all), want)
		}
	}
}
