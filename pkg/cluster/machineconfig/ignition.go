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
		Notes: site.notes, Warnings: site.warnings,
	}, nil
}

// checkBinary rejects a file that is not this service for Linux. It returns the GOARCH
// of the binary.
func checkBinary(binary Input) (architecture string, err error) {
	reject := func(format string, args ...any) (string, error) {
		return "", problem(binary.Name, fmt.Sprintf(format, args...),
			`give an http01-proxyd for Linux, from "make build" or a release`)
	}
	built, err := buildinfo.Read(bytes.NewReader(binary.Text))
	if err != nil {
		return reject("not http01-proxyd (%v)", err)
	}
	if !strings.HasSuffix(built.Path, "/cmd/http01-proxyd") { // the module of a fork has another name
		return reject("not http01-proxyd, but built from %q", built.Path)
	}
	settings := make(map[string]string)
	for _, s := range built.Settings {
		settings[s.Key] = s.Value
	}
	if settings["GOOS"] != "linux" {
		return reject("built for %s/%s", settings["GOOS"], settings["GOARCH"])
	}
	return settings["GOARCH"], nil
}
