// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestInitialMemory: no package of the project allocates much before main. Each of up to four
// processes would keep it. Bounds in a regular expression are a usual cause.
func TestInitialMemory(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	found := regexp.MustCompile(`(?m)^init (\S+) .* (\d+) bytes`).FindAllStringSubmatch(string(out), -1)
	if len(found) < 20 {
		t.Fatalf("the runtime reported %d packages:\n%s", len(found), out)
	}
	for _, f := range found {
		size, err := strconv.Atoi(f[2])
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(f[1], module) && size > 64<<10 {
			t.Errorf("%s allocates %d bytes, more than 64 KiB", f[1], size)
		}
	}
}
