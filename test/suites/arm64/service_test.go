// SPDX-License-Identifier: Apache-2.0

package arm64

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/guest"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// TestService runs a whole lab: a CA issues certificates through the VIP, over both
// families, keepalived moves the VIP to another host and back, and the service is killed
// and started again.
func TestService(t *testing.T) {
	t.Parallel()
	tests := []string{"TestCertificate", "TestFailover", "TestKill"}
	printed := runTests(t, "support/lab", fmt.Sprintf("-test.run '^(%s)$'", strings.Join(tests, "|")))
	expectPassed(t, printed, tests...)
}

// runTests runs tests of this module in the guest, and returns their output.
func runTests(t *testing.T, folder, flags string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: mmdebstrap")
	}
	files, err := programs(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	return runGuest(t, guest.Job{Arch: arch, Files: files, Script: fmt.Sprintf(
		"mkdir -p %[1]s && cd %[1]s && HTTP01_PROXYD=/programs/http01-proxyd /programs/tests -test.v %[2]s\n", "/lab/test/"+
			folder, flags)})
}

// programs returns the tests in a folder, the service and the tools of labs, which uses
// tools beside its own program.
func programs(ctx context.Context, folder string) (map[string]string, error) {
	tests, err := lab.BuildTests(ctx, folder, arch)
	if err != nil {
		return nil, err
	}
	service, err := lab.BuildServiceFor(ctx, arch)
	if err != nil {
		return nil, err
	}
	tools, err := lab.BuildToolsFor(ctx, arch)
	if err != nil {
		return nil, err
	}
	files := map[string]string{"/programs/tests": tests, "/programs/http01-proxyd": service}
	for _, tool := range []string{tools.Pebble, tools.DNS, tools.Solver} {
		files["/programs/"+filepath.Base(tool)] = tool
	}
	return files, nil
}
