// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	operatorv1alpha1 "github.com/http01-proxyd/http01-proxyd/pkg/apis/operator/v1alpha1"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/condition"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// hostName returns the name of the host whose report a file contains.
func hostName(file string) string {
	return strings.TrimPrefix(strings.TrimSuffix(filepath.Base(file), ".json"), "status-")
}

// isPattern reports whether a name is a pattern that the shell has not expanded,
// because no file matched.
func isPattern(file string) bool {
	if !strings.ContainsAny(file, "*?[") {
		return false
	}
	_, err := os.Lstat(file)
	return errors.Is(err, fs.ErrNotExist)
}

// readHostReport reads the report of a host. The time of the file is the time of the
// query. A report that cannot be read counts as a host that has not answered.
func readHostReport(file string) condition.HostReport {
	name := hostName(file)
	h := condition.HostReport{Name: name}
	text, err := readReport(file)
	if err == nil {
		var report condition.HostReport
		if report, err = condition.Parse(name, text); err == nil {
			h = report
		} else if file != name { // the error already contains the host's name
			err = fmt.Errorf("%s: %w", file, err)
		}
	}
	if err != nil {
		h.Problem = err.Error()
	}
	if info, err := os.Stat(file); err == nil {
		h.Observed = info.ModTime()
	}
	return h
}

// readReport reads a regular file: reading another type of file could block.
func readReport(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New(file + " is not a regular file")
	}
	var text []byte
	if err == nil {
		text, err = readAtMost(file, maxReport)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the report: %w: give a file with the output of \"http01-proxyd status -o json\" on the host", err)
	}
	return text, nil
}

func readAtMost(file string, limit int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s is longer than %d bytes", file, limit)
	}
	return text, err
}

// readPrevious reads the conditions in the output of an earlier run, nil without one.
func (f conditionFlags) readPrevious() ([]report.Condition, error) {
	if f.previous == "" {
		return nil, nil
	}
	const remediation = "give the output of an earlier run with -o json or -o yaml, or remove the file"
	text, err := readAtMost(f.previous, maxCondition)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the first run
	} else if err != nil {
		return nil, fmt.Errorf("cannot read the previous condition: %w: %s", err, remediation)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, config.Problem{
			Where:       f.previous,
			Message:     "empty: the shell may have truncated the file",
			Remediation: "remove it, and write the condition to another file first, as --help shows",
		}
	}
	types, stored, err := f.parseConditions(text)
	if err != nil {
		return nil, config.Problem{Where: f.previous, Message: "not a condition", Remediation: remediation}
	}
	var all []report.Condition
	for _, want := range types {
		i := slices.IndexFunc(stored, func(fields map[string]string) bool { return fields["type"] == want })
		if i < 0 {
			return nil, config.Problem{Where: f.previous, Message: "not a condition " + want, Remediation: remediation}
		}
		at, err := time.Parse(time.RFC3339, stored[i]["lastTransitionTime"])
		if err != nil || stored[i]["status"] == "" {
			return nil, config.Problem{Where: f.previous, Message: "not a condition " + want, Remediation: remediation}
		}
		all = append(all, report.Condition{Type: want, Status: stored[i]["status"], LastTransitionTime: at})
	}
	return all, nil
}

// parseConditions returns the fields of each condition in a document of the kind that
// is printed, and the types that it must have.
func (f conditionFlags) parseConditions(text []byte) (types []string, fields []map[string]string, err error) {
	if f.kind == kindHTTP01Proxy {
		var document struct {
			Status struct{ Conditions []map[string]string }
		}
		err = yaml.Load(text, &document) // JSON is YAML
		return []string{operatorv1alpha1.ConditionReady, operatorv1alpha1.ConditionDegraded}, document.Status.Conditions, err
	}
	fields = make([]map[string]string, 1)
	err = yaml.Load(text, &fields[0])
	return []string{report.ConditionType}, fields, err
}
