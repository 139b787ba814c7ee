// SPDX-License-Identifier: Apache-2.0

package machineconfig_test

import (
	"encoding/binary"
	"strings"
	"testing"

	ignition "github.com/coreos/ignition/v2/config/v3_4"
	"github.com/google/go-cmp/cmp"

	sources "github.com/http01-proxyd/http01-proxyd"
	"github.com/http01-proxyd/http01-proxyd/pkg/machineconfig"
)

// program is the least that counts as a Linux program: an ELF header.
func program(kind uint16) []byte {
	head := make([]byte, 64)
	copy(head, "\x7fELF\x02\x01\x01")
	for at, value := range map[int]uint16{16: kind, 18: 62 /* EM_X86_64 */, 20: 1, 52: 64, 54: 56, 58: 64} {
		binary.LittleEndian.PutUint16(head[at:], value)
	}
	return head
}

func TestIgnition(t *testing.T) {
	t.Parallel()
	text := program(2) // ET_EXEC
	o, err := machineconfig.Ignition(sources.Files, nil, machineconfig.Input{Name: "b", Text: text})
	if err != nil {
		t.Fatal(err)
	}
	c, remarks, err := ignition.Parse(o.Text)
	if err != nil || len(remarks.Entries) > 0 {
		t.Fatal(err, remarks)
	}
	want := map[string]string{
		"/usr/local/bin/http01-proxyd -rwxr-xr-x":   string(text),
		"/etc/http01-proxyd/config.yaml -rw-r--r--": source(t, "butane/config.yaml"),
		"http01-proxyd.service enabled":             source(t, "systemd/http01-proxyd.service"),
	}
	if diff := cmp.Diff(want, onHost(t, c)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if o.File != "http01-proxyd.ign" || o.Size != len(o.Text)-1 {
		t.Errorf("%s with %d bytes", o.File, o.Size)
	}
}

// TestIgnitionHoldsALargeBinary: no limit that is meant for MachineConfigs
// applies.
func TestIgnitionHoldsALargeBinary(t *testing.T) {
	t.Parallel()
	text := append(program(2), noise(machineconfig.TotalLimit+1)...)
	o, err := machineconfig.Ignition(sources.Files, nil, machineconfig.Input{Name: "b", Text: text})
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := ignition.Parse(o.Text)
	if err != nil {
		t.Fatal(err)
	}
	if got := onHost(t, c)["/usr/local/bin/http01-proxyd -rwxr-xr-x"]; got != string(text) {
		t.Errorf("the binary has %d bytes and arrives with %d", len(text), len(got))
	}
}

func TestIgnitionRefuses(t *testing.T) {
	t.Parallel()
	const mend = `: give what "make build" or a release has made for Linux`
	for name, tt := range map[string]struct {
		binary []byte
		config *machineconfig.Input
		want   string
	}{
		"no binary":   {nil, nil, "b: not a Linux program (EOF)" + mend},
		"script":      {[]byte("#!/bin/sh\nexec true\n" + strings.Repeat("#", 64)), nil, "b: not a Linux program (bad magic number '[35 33 47 98]' in record at byte 0x0)" + mend},
		"object file": {program(1), nil, "b: not a Linux program, but an ELF file of type ET_REL" + mend},
		"both": {
			program(4), &machineconfig.Input{Name: "c.yaml", Text: []byte("port: 1\n")},
			"c.yaml:1:1: unknown key \"port\" in the configuration: use one of mode, customDeployment, vips, upstream, hosts, limits\nb: not a Linux program, but an ELF file of type ET_CORE" + mend,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := machineconfig.Ignition(sources.Files, tt.config, machineconfig.Input{Name: "b", Text: tt.binary})
			if err == nil {
				t.Fatal("accepted")
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
