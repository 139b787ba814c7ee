// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// lastAccepted is the copy of the configuration for the next start.
const lastAccepted = "last-accepted.yaml"

// stateFiles are the files that the service writes here, and their content. MicroShift is not
// on the host.
func stateFiles() map[string]func(text string) bool {
	isJSON := func(text string) bool { return json.Valid([]byte(text)) }
	return map[string]func(string) bool{
		lastAccepted: func(string) bool { return true }, // see LastAccepted of the model
		"last-good-ca-bundle.crt": func(text string) bool {
			return text == "" || strings.HasPrefix(text, "-----BEGIN CERTIFICATE-----\n") &&
				strings.HasSuffix(text, "-----END CERTIFICATE-----\n")
		},
		"accepted-egress-proxy.json": isJSON,
	}
}

// differFiles returns the differences between the files of a host and the model, in the state
// directory and in the input files, of which the service changes none. On a node a
// MachineConfig owns them, and the node is degraded if another program changes one.
func (h *host) differFiles() (list []string) {
	inputs, err := snapshot(h.Dir)
	if err != nil {
		return []string{err.Error()}
	}
	if want := h.inputs; !maps.Equal(want, inputs) {
		list = append(list, fmt.Sprintf("input files: want %v, got %v", want, inputs))
	}
	dir := filepath.Join(h.StateDir(), "http01-proxyd")
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		return append(list, err.Error())
	}
	texts, mayLack := h.model.LastAccepted()
	temporary := 0
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			temporary++
			continue
		}
		valid, known := stateFiles()[e.Name()]
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		switch {
		case !known:
			list = append(list, "state directory: want no file "+e.Name())
		case err != nil:
			list = append(list, err.Error())
		case !valid(string(text)):
			list = append(list, fmt.Sprintf("%s: invalid: %.200q", e.Name(), text))
		case e.Name() != lastAccepted:
		case !slices.Contains(texts, string(text)):
			list = append(list, fmt.Sprintf("%s: want one of %q, got %.300q", lastAccepted, texts, text))
		default:
			mayLack = true
		}
	}
	if !mayLack && len(list) == 0 {
		list = append(list, "state directory: want "+lastAccepted+", got none")
	}
	if most := h.model.CutWrites(); temporary > most {
		list = append(list, fmt.Sprintf("temporary files: want at most %d, got %d", most, temporary))
	}
	return list
}

// snapshot returns the files of a directory by name, with what a change of content, mode or
// owner changes.
func snapshot(dir string) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the input files: %w", err)
	}
	files := make(map[string]string)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, fmt.Errorf("list the input files: %w", err)
		}
		stat, is := info.Sys().(*syscall.Stat_t)
		if !is {
			return nil, fmt.Errorf("no status of %s", e.Name())
		}
		files[e.Name()] = fmt.Sprintf("%v, %d bytes, inode %d, changed %d.%09d", info.Mode(), info.Size(), stat.Ino,
			stat.Ctim.Sec, stat.Ctim.Nsec)
	}
	return files, nil
}

// recordInput notes an input file that a fault changed. The others must be as before.
func (h *host) recordInput(name string) error {
	now, err := snapshot(h.Dir)
	if err != nil {
		return err
	}
	before := h.inputs
	h.inputs = maps.Clone(now)
	delete(before, name)
	delete(now, name)
	if !maps.Equal(before, now) {
		return fmt.Errorf("input files beside %s: want %v, got %v", name, before, now)
	}
	return nil
}
