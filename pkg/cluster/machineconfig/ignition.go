// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// RenderIgnition returns an Ignition configuration, as JSON, for a host without the
// machine-config-operator. It contains the binary.
func RenderIgnition(sources fs.FS, s Site, binary Input) (Object, error) {
	site, err := s.resolve(sources, time.Now())
	architecture, binaryErr := checkBinary(binary)
	if err := errors.Join(err, binaryErr); err != nil {
		return Object{}, err
	}
	var text []byte
	generated := site.files()
	generated[binaryFile] = binary.Text
	err = withStagedFiles(sources, generated, func(dir string) (err error) {
		text, err = translateSource(sources, dir, fcosSource, site.bundle != nil)
		return err
	})
	if err != nil {
		return Object{}, err
	}
	return Object{
		File: "http01-proxyd.ign", Text: append(text, '\n'), Size: len(text), Architecture: architecture,
		Notes: site.notes,
	}, nil
}

// checkBinary rejects a file that is not this service for Linux. It returns the GOARCH
// of the binary.
func checkBinary(binary Input) (architecture string, err error) {
	built, err := buildinfo.Read(bytes.NewReader(binary.Text))
	if err != nil {
		return "", problem(binary.Name, fmt.Sprintf("not http01-proxyd (%v)", err), binaryRemediation)
	}
	settings := make(map[string]string)
	for _, s := range built.Settings {
		settings[s.Key] = s.Value
	}
	// The module of a fork has another name.
	if !strings.HasSuffix(built.Path, "/cmd/http01-proxyd") || settings["GOOS"] != "linux" {
		message := fmt.Sprintf("not http01-proxyd for Linux, but built from %q for %s", built.Path, settings["GOOS"])
		return "", problem(binary.Name, message, binaryRemediation)
	}
	return settings["GOARCH"], nil
}

const binaryRemediation = `give an http01-proxyd for Linux, from "make build" or a release`
