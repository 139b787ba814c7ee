// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/oc"
)

// Changes that a later release can make besides another binary, as commands that edit the
// output of make.
const (
	otherUnits  = "release-with-other-units"
	anotherUnit = "release-with-another-unit"
)

// Texts by which the tests recognise the changes.
const (
	otherScript = "# of the next release\n"
	nextUnit    = "http01-proxyd-next.service"

	nextMessage  = "8f2a1f2f4f0f4d1f9d5f2f7b8c3d4e5f"
	otherCatalog = "\n-- " + nextMessage + "\nSubject: A message of the next release\nDefined-By: http01-proxyd\n"
)

func nextReleaseHandlers() map[string]oc.Handler {
	rendered := func(dir string, parts ...string) string {
		return filepath.Join(append([]string{dir, "rendered"}, parts...)...)
	}
	return map[string]oc.Handler{
		otherUnits: func(_ context.Context, dir string, _ ...string) (string, error) {
			return "", editFile(rendered(dir, "98-master-http01-proxyd.yaml"), withOtherUnits)
		},
		anotherUnit: func(_ context.Context, dir string, _ ...string) (string, error) {
			return "", errors.Join(
				editFile(rendered(dir, "98-master-http01-proxyd.yaml"), withAnotherUnit),
				editFile(rendered(dir, "10-policy", "policy.yaml"), withUnitPolicy),
			)
		},
	}
}

// withOtherUnits changes each unit, the installer and the catalog.
func withOtherUnits(o map[string]any) error {
	edits := map[string][2]string{
		service:   {"TasksMax=1024\n", "TasksMax=1280\n"},
		companion: {"TimeoutStopSec=15s\n", "TimeoutStopSec=16s\n"},
		installer: {"TimeoutStartSec=15min\n", "TimeoutStartSec=16min\n"},
		timer:     {"OnUnitInactiveSec=5min\n", "OnUnitInactiveSec=6min\n"},
	}
	err := eachOf(o, func(unit map[string]any) error {
		name, _ := unit["name"].(string)
		text, _ := unit["contents"].(string)
		edit, known := edits[name]
		if !known || !strings.Contains(text, edit[0]) {
			return fmt.Errorf("unit %s has no %q to change", name, edit[0])
		}
		unit["contents"] = strings.Replace(text, edit[0], edit[1], 1)
		delete(edits, name)
		return nil
	}, "spec", "config", "systemd", "units")
	if err != nil || len(edits) > 0 {
		return errors.Join(err, fmt.Errorf("units without a change: %v", edits))
	}
	more := map[string]string{"http01-proxyd-install": otherScript, "http01-proxyd.catalog": otherCatalog}
	return eachOf(o, func(file map[string]any) error {
		name, _ := file["path"].(string)
		if name == "/etc/sos/extras.d/http01-proxyd" {
			return nil // both releases have the same commands
		}
		name = filepath.Base(name)
		text, err := os.ReadFile(filepath.Join(host.Repository(), "systemd", name))
		if err != nil {
			return fmt.Errorf("read the source of %s: %w", name, err)
		}
		if more[name] == "" {
			return fmt.Errorf("unexpected file %s", name)
		}
		file["contents"] = map[string]any{"source": "data:," + url.PathEscape(string(text)+more[name])}
		return nil
	}, "spec", "config", "storage", "files")
}

// withAnotherUnit adds a unit that no earlier policy lists.
func withAnotherUnit(o map[string]any) error {
	return add(o, map[string]any{
		"name":     nextUnit,
		"contents": "[Unit]\nDescription=What the next release brings\n\n[Service]\nType=oneshot\nExecStart=true\n",
	}, "spec", "config", "systemd", "units")
}

func withUnitPolicy(o map[string]any) error {
	return add(o, map[string]any{
		"name": nextUnit, "actions": []any{map[string]any{"type": "DaemonReload"}},
	}, "spec", "nodeDisruptionPolicy", "units")
}

// add appends an entry to an object's list.
func add(o map[string]any, entry map[string]any, path ...string) error {
	list, found, err := unstructured.NestedSlice(o, path...)
	if err != nil || !found {
		return fmt.Errorf("find %v: %w", path, errors.Join(err, os.ErrNotExist))
	}
	return unstructured.SetNestedSlice(o, append(list, entry), path...)
}

// eachOf edits the entries of an object's list. It returns an error for an empty list.
func eachOf(o map[string]any, edit func(map[string]any) error, path ...string) error {
	list, _, err := unstructured.NestedSlice(o, path...)
	if err != nil || len(list) == 0 {
		return fmt.Errorf("find %v: %w", path, errors.Join(err, os.ErrNotExist))
	}
	for _, item := range list {
		entry, _ := item.(map[string]any)
		if err := edit(entry); err != nil {
			return err
		}
	}
	return unstructured.SetNestedSlice(o, list, path...)
}

// editFile edits the object in a YAML file.
func editFile(name string, edit func(map[string]any) error) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read the file to edit: %w", err)
	}
	var o map[string]any
	if err := yaml.Unmarshal(text, &o); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := edit(o); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if text, err = yaml.Marshal(o); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(name, text, 0o600)
}
