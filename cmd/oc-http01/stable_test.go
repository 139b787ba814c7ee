// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/internal/stabletest"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// onHost matches the name of an object, and the files and units on hosts.
var onHost = regexp.MustCompile(`(?m)(?:^  name|^ +(?:- )?path): /?\S+$|^ +(?:- )?name: \S+\.\w+$`)

// TestStable holds what scripts and the tools of administrators depend on to docs/reference/stable.
func TestStable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if got := runLine(t, "", "render", "--image", image, "--output-dir", dir); got.code != cli.OK {
		t.Fatal(got)
	}
	var files []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name := must1(filepath.Rel(dir, path))(t)
		files = append(files, "render "+name)
		for _, m := range onHost.FindAllString(string(must1(os.ReadFile(path))(t)), -1) {
			files = append(files, name+" "+strings.TrimLeft(m, " -"))
		}
		return nil
	})
	must(t, err)
	for name, lines := range map[string][]string{
		"files":            files,
		"commands-cluster": stabletest.Commands(rootCommand()),
		"json-cluster": slices.Concat(
			stabletest.Fields("ClusterStatus", reflect.TypeFor[report.ClusterStatus]()),
			stabletest.Fields("ClusterCheck", reflect.TypeFor[report.ClusterCheck]()),
			stabletest.Fields("ClusterTrace", reflect.TypeFor[report.ClusterTrace]()),
			stabletest.Fields("ClusterCertificate", reflect.TypeFor[report.ClusterCertificate]()),
			stabletest.Fields("ClusterCondition", reflect.TypeFor[report.ClusterCondition]()),
			stabletest.Fields("Preflight", reflect.TypeFor[report.Preflight]()),
			stabletest.Fields("RenderedFiles", reflect.TypeFor[renderedFiles]()),
		),
	} {
		stabletest.Check(t, *update, "../..", name, lines)
	}
}
