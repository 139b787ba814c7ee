// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Machine describes the machine and the measured programs.
type Machine struct {
	When     time.Time
	Kernel   string
	CPU      string
	Cores    int
	Versions []Version
}

// Version is a program with its version.
type Version struct {
	Name, Text string
}

func (r *rig) describeMachine(ctx context.Context, all []proxy) (Machine, error) {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return Machine{}, fmt.Errorf("read the kernel's version: %w", err)
	}
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return Machine{}, fmt.Errorf("read the CPU's model: %w", err)
	}
	m := Machine{
		When: time.Now().UTC(), Kernel: unix.ByteSliceToString(uts.Release[:]),
		Cores: runtime.NumCPU(),
	}
	if model := cpuModel.FindSubmatch(info); model != nil {
		m.CPU = string(model[1])
	}
	for _, d := range all {
		if d.detail == nil {
			continue
		}
		text, err := d.detail(ctx, r)
		if err != nil {
			return m, fmt.Errorf("query the version of %s: %w", d.name, err)
		}
		m.Versions = append(m.Versions, Version{d.name, text})
	}
	compiler, err := versionOf("gcc", "--version")(ctx, r)
	m.Versions = append(m.Versions, Version{"client and upstream", "test/support/bench/lean, compiled by " + compiler})
	return m, err
}

// cpuModel matches nothing on architectures whose cpuinfo lacks a model name.
var cpuModel = regexp.MustCompile(`(?m)^model name\s*: (.*)$`)
