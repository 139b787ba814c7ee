// SPDX-License-Identifier: Apache-2.0

package machineconfig_test

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	ignition "github.com/coreos/ignition/v2/config/v3_4"
	"github.com/google/go-cmp/cmp"

	sources "github.com/http01-proxyd/http01-proxyd"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
)

// program is a minimal Linux program: an ELF header, and the build information of the
// Go linker in the only segment.
func program(kind uint16, path, goos, goarch string) []byte {
	build := "path\t" + path + "\nbuild\tGOARCH=" + goarch + "\nbuild\tGOOS=" + goos + "\n"
	info := append([]byte("\xff Go buildinf:\x08\x02"), make([]byte, 16)...) // strings follow inline
	for _, text := range []string{"go1.26.0", strings.Repeat("<", 16) + build + strings.Repeat(">", 16)} {
		info = append(binary.AppendUvarint(info, uint64(len(text))), text...)
	}
	head := make([]byte, 128)
	copy(head, "\x7fELF\x02\x01\x01")
	size := uint16(len(info))
	for at, value := range map[int]uint16{
		16: kind, 18: 62 /* EM_X86_64 */, 20: 1, 32: 64, 52: 64, 54: 56, 56: 1, 58: 64,
		64: 1 /* PT_LOAD */, 68: 6 /* read, write */, 72: 128, 80: 128, 88: 128, 96: size, 104: size,
	} {
		binary.LittleEndian.PutUint16(head[at:], value)
	}
	return slices.Concat(head, info)
}

const servicePath = "github.com/http01-proxyd/http01-proxyd/cmd/http01-proxyd"

// TestIgnition: the files of a host, also with the binary of a fork (ET_DYN). The
// limits of MachineConfigs do not apply.
func TestIgnition(t *testing.T) {
	t.Parallel()
	text := append(program(3, "example.com/fork/cmd/http01-proxyd", "linux", "s390x"),
		noise(machineconfig.TotalLimit+1)...)
	o := must1(machineconfig.RenderIgnition(sources.Files, machineconfig.Site{}, machineconfig.Input{
		Name: "b",
		Text: text,
	}))(t)
	c, remarks, err := ignition.Parse(o.Text)
	if err != nil || len(remarks.Entries) > 0 {
		t.Fatal(err, remarks)
	}
	want := map[string]string{
		"/usr/local/bin/http01-proxyd -rwxr-xr-x":   string(text),
		"/etc/http01-proxyd/config.yaml -rw-r--r--": source(t, "butane/config.yaml"),
		"http01-proxyd.service enabled":             source(t, "systemd/http01-proxyd.service"),
		"http01-proxyd-table.service":               source(t, "systemd/http01-proxyd-table.service"),
		catalog:                                     source(t, "systemd/http01-proxyd.catalog"),
		"http01-proxyd-catalog.service enabled":     source(t, "systemd/http01-proxyd-catalog.service"),
	}
	if diff := cmp.Diff(want, onHost(t, c)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if o.File != "http01-proxyd.ign" || o.Size != len(o.Text)-1 || o.Architecture != "s390x" {
		t.Errorf("%s for %q with %d bytes", o.File, o.Architecture, o.Size)
	}
}

func TestIgnitionRefuses(t *testing.T) {
	t.Parallel()
	const remediation = `: give an http01-proxyd for Linux, from "make build" or a release`
	for name, tt := range map[string]struct {
		binary []byte
		config *machineconfig.Input
		want   string
	}{
		"no binary": {nil, nil, "b: not http01-proxyd (unrecognized file format)" + remediation},
		"script": {
			[]byte("#!/bin/sh\nexec true\n" + strings.Repeat("#", 64)), nil,
			"b: not http01-proxyd (unrecognized file format)" + remediation,
		},
		"not by Go": {program(2, servicePath, "linux", "amd64")[:128], nil, "b: not http01-proxyd (not a Go executable)" +
			remediation},
		"other program": {
			program(2, "github.com/http01-proxyd/http01-proxyd/cmd/oc-http01", "linux", "amd64"), nil,
			`b: not http01-proxyd for Linux, but built from "github.com/http01-proxyd/http01-proxyd/cmd/oc-http01" for linux` +
				remediation,
		},
		"other system": {
			program(2, servicePath, "freebsd", "arm64"), nil,
			`b: not http01-proxyd for Linux, but built from "` + servicePath + `" for freebsd` + remediation,
		},
		"both": {
			nil, &machineconfig.Input{Name: "c.yaml", Text: []byte("port: 1\n")},
			"c.yaml:1:1: unknown key \"port\" in the configuration: use one of mode, customDeployment, vips, upstream, " +
				"egressProxy, hosts, limits, metrics, selfTest, microshift\nb: not http01-proxyd (unrecognized file format)" +
				remediation,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := machineconfig.RenderIgnition(sources.Files, machineconfig.Site{Config: tt.config},
				machineconfig.Input{Name: "b", Text: tt.binary})
			if err == nil {
				t.Fatal("accepted")
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
