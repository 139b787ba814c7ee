// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/guest"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// vmTests lists the tests that run under another kernel when this one lacks their kind
// of link. One guest runs all of them.
var vmTests = []string{"TestBond", "TestVLAN"}

// onKernelWith runs a test under this machine's kernel if it supports a kind of link, as
// RHEL's does, and otherwise under Debian's.
func onKernelWith(t *testing.T, k lab.Link, test func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	has, err := lab.KernelHas(shared.ctx, k)
	must(t, err)
	if has {
		test()
		return
	}
	t.Log("this kernel lacks the link type: the test runs under Debian's kernel in QEMU")
	printed, err := shared.elsewhere()
	text, passed := outcome(printed, t.Name())
	if !passed {
		t.Fatalf("%v\n%s", err, text)
	}
	t.Log(text)
}

// outcome returns the output of one test in a guest, or all output when the test is not
// found.
func outcome(printed, test string) (text string, passed bool) {
	_, after, begun := strings.Cut(printed, "=== RUN   "+test+"\n")
	end := regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): ` + test + ` .*\n`).FindStringSubmatchIndex(after)
	if !begun || end == nil {
		return printed, false
	}
	return after[:end[1]], after[end[2]:end[3]] == "PASS"
}

// runInVM runs this package's vmTests in a guest.
func runInVM(ctx context.Context) (string, error) {
	tests, err := lab.BuildTests(ctx, "suites/topology", runtime.GOARCH)
	if err != nil {
		return "", err
	}
	tools, err := lab.Build(ctx)
	if err != nil {
		return "", err
	}
	document, err := filepath.Abs(document)
	if err != nil {
		return "", err
	}
	const folder = "/lab/test/suites/topology/"
	files := map[string]string{
		folder + "topology.test":               tests,
		folder + "http01-proxyd":               shared.binary,
		"/lab/docs/" + filepath.Base(document): document,
	}
	// The lab uses tools beside its own program.
	for _, tool := range []string{tools.Pebble, tools.DNS, tools.Solver} {
		files[folder+filepath.Base(tool)] = tool
	}
	return guest.Run(ctx, filepath.Join(filepath.Dir(document), "..", ".cache"), guest.Job{
		Arch:  runtime.GOARCH,
		Files: files,
		Script: fmt.Sprintf("cd %s && HTTP01_PROXYD=./http01-proxyd ./topology.test -test.v -test.run '^(%s)$'\n",
			folder, strings.Join(vmTests, "|")),
	})
}
