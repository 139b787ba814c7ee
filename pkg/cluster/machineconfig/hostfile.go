// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"

	"github.com/vincent-petithory/dataurl"
	"go.yaml.in/yaml/v4"
)

// plainLimit is the maximal size of a file that is delivered as plain text, so that an auditor can
// read and search the object. OpenShift before 4.20 cannot merge a plain file of another
// MachineConfig over a compressed one. Larger files, such as a bundle of many CAs, remain
// compressed.
const plainLimit = 64 << 10

// unitFolder is where the machine-config-daemon and Ignition write units.
const unitFolder = "/etc/systemd/system"

// HostFile is a file on a host.
type HostFile struct {
	Path string
	Mode int // permission bits
	Text []byte
}

// checksum returns one line: mode, size, SHA-256 and path.
func (f HostFile) checksum() string {
	return fmt.Sprintf("%04o %6d %x %s", f.Mode, len(f.Text), sha256.Sum256(f.Text), f.Path)
}

// ignitionConfig is the configuration in a MachineConfig.
type ignitionConfig struct {
	Ignition struct {
		Version string `json:"version" yaml:"version"`
	} `json:"ignition" yaml:"ignition"`
	Storage struct {
		Files []ignitionFile `json:"files" yaml:"files"`
	} `json:"storage" yaml:"storage"`
	Systemd *struct {
		Units []ignitionUnit `json:"units" yaml:"units"`
	} `json:"systemd,omitempty" yaml:"systemd,omitempty"`
}

type ignitionFile struct {
	Contents struct {
		Compression string     `json:"compression" yaml:"compression"`
		Source      quotedText `json:"source" yaml:"source"`
	} `json:"contents" yaml:"contents"`
	Mode      int    `json:"mode" yaml:"mode"`
	Overwrite bool   `json:"overwrite" yaml:"overwrite"`
	Path      string `json:"path" yaml:"path"`
}

type ignitionUnit struct {
	Contents string           `json:"contents" yaml:"contents"`
	Dropins  []ignitionDropin `json:"dropins,omitempty" yaml:"dropins,omitempty"`
	Enabled  bool             `json:"enabled,omitempty" yaml:"enabled,omitempty"`
	Name     string           `json:"name" yaml:"name"`
}

type ignitionDropin struct {
	Contents string `json:"contents" yaml:"contents"`
	Name     string `json:"name" yaml:"name"`
}

// quotedText is written in double quotes, so that it can continue on a new line.
type quotedText string

// MarshalYAML implements yaml.Marshaler.
func (t quotedText) MarshalYAML() (any, error) {
	return &yaml.Node{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle, Value: string(t)}, nil
}

// expand returns what the configuration writes on a host, and replaces compressed contents by
// plain text up to plainLimit.
func (c *ignitionConfig) expand() (all []HostFile, err error) {
	for i, f := range c.Storage.Files {
		text, err := f.text()
		if err != nil {
			return nil, err
		}
		if contents := &c.Storage.Files[i].Contents; len(text) <= plainLimit {
			contents.Compression, contents.Source = "", plainURL(text)
		}
		all = append(all, HostFile{f.Path, f.Mode, text})
	}
	if c.Systemd == nil {
		return all, nil
	}
	for _, u := range c.Systemd.Units {
		all = append(all, HostFile{path.Join(unitFolder, u.Name), 0o644, []byte(u.Contents)})
		for _, d := range u.Dropins {
			all = append(all, HostFile{path.Join(unitFolder, u.Name+".d", d.Name), 0o644, []byte(d.Contents)})
		}
	}
	return all, nil
}

// text returns the contents, which Butane has compressed if that is shorter.
func (f ignitionFile) text() ([]byte, error) {
	decoded, err := dataurl.DecodeString(string(f.Contents.Source))
	if err != nil {
		return nil, fmt.Errorf("cannot decode the contents of %s: %w", f.Path, err)
	}
	if f.Contents.Compression == "" {
		return decoded.Data, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(decoded.Data))
	if err == nil {
		decoded.Data, err = io.ReadAll(r)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot decompress the contents of %s: %w", f.Path, err)
	}
	return decoded.Data, nil
}

// plainURL returns text as a data URL. It encodes only the characters that Ignition's decoder
// (isURLCharRune in github.com/vincent-petithory/dataurl) does not accept, and "?", which begins the
// query of a URL.
func plainURL(text []byte) quotedText {
	escaped := (&url.URL{Path: string(text)}).EscapedPath()
	accepted := strings.NewReplacer("%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*")
	return quotedText("data:," + accepted.Replace(escaped))
}
