// SPDX-License-Identifier: Apache-2.0

package arm64

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/guest"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// suite is a package of the service with the tests that run in the guest.
type suite struct {
	folder string
	tests  []string
}

func suites() []suite {
	return []suite{
		// Each forbidden call fails inside each kind of child process.
		{"internal/sandbox", []string{
			"TestForbidden/forbidden_to_proxy", "TestForbidden/forbidden_to_exporter", "TestForbidden/forbidden_to_prober",
			"TestConfined", "TestChildHasNoCapability",
			"TestLandlock/access_as_unrestricted_process",
			"TestLandlock/access_as_proxy", "TestLandlock/access_as_exporter", "TestLandlock/access_as_prober",
		}},
		// The controller's children have the filter, and it allows the calls that they
		// need. The proxy answers challenges, the exporter serves metrics, and the prober
		// reads certificates.
		{"pkg/controller", []string{
			"TestProxyIsUnprivileged", "TestExporterIsUnprivileged", "TestChallengeThroughTheVIP",
			"TestExpiryWatcher",
		}},
		{"pkg/proxy", []string{"TestConfinedTLS"}},
	}
}

// program returns the path of the test program in the guest.
func (s suite) program() string { return "/tests/" + path.Base(s.folder) + ".test" }

// command returns the shell command that runs the tests in the guest.
func (s suite) command() string {
	var names []string
	for _, test := range s.tests {
		name, _, _ := strings.Cut(test, "/")
		names = append(names, name)
	}
	return fmt.Sprintf("%s -test.v -test.timeout 5m -test.run '^(%s)$' || failed=1\n", s.program(),
		strings.Join(slices.Compact(names), "|"))
}

// TestFilter runs the tests of the sandbox and of the child processes in it.
func TestFilter(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root: mmdebstrap")
	}
	// Child processes of another user write to /tmp.
	job := guest.Job{Arch: arch, Files: make(map[string]string), Script: "failed=0\nchmod 1777 /tmp\n"}
	for _, s := range suites() {
		binary, err := lab.BuildServiceTests(t.Context(), s.folder, job.Arch)
		if err != nil {
			t.Fatal(err)
		}
		job.Files[s.program()] = binary
		job.Script += s.command()
	}
	job.Script += "exit $failed\n"
	printed := runGuest(t, job)
	for _, s := range suites() {
		expectPassed(t, printed, s.tests...)
	}
	// Without Landlock, TestLandlock has nothing to deny.
	if !regexp.MustCompile(`Landlock's version: [1-9]`).MatchString(printed) {
		t.Error("the guest's kernel has no Landlock")
	}
}
