// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"fmt"
	"strings"
	"testing"
)

// packageFile returns the path of a version's package. The second is built as documented.
func packageFile(version string) string {
	name := "http01-proxyd-" + version + "." + rpmArchitecture + ".rpm"
	if version == secondInRPM {
		return source + "/dist/" + name
	}
	return dist + "/" + name
}

// TestReproducible builds the package with another folder, clock, umask, time zone and rpm
// macros.
func TestReproducible(t *testing.T) {
	s := useTestbed(t)
	runOnHost(t, s.edge, "sh", "-ec", `umask 077; cp --recursive `+source+` /root/elsewhere`)
	got, err := s.edge.Run(t.Context(), "env", "TZ=Pacific/Auckland", "LANG=C", "SOURCE_DATE_EPOCH="+epoch, "sh", "-ec",
		`mkdir -p /root/home && echo '%packager somebody' >/root/home/.rpmmacros && export HOME=/root/home
umask 027; make --no-print-directory -C /root/elsewhere -f build/release.mk rpm BINARY=/root/`+first+` VERSION=`+first+
			` DIST=/root/again ARCHITECTURE=`+architecture+` && cmp /root/again/*.rpm '`+packageFile(firstInRPM)+`'`)
	must(t, err)
	t.Log(got)
	if got := runOnHost(t, s.edge, "rpm", "-qp", "--queryformat=%{BUILDHOST} %{BUILDTIME}",
		packageFile(firstInRPM)); got != "reproducible "+epoch {
		t.Errorf("build host and time: %s", got)
	}
}

// TestVersions holds that a package has the version of its binary, and that another version
// needs ALLOW_DIRTY. A pseudo-version of the go command is valid for rpm. Invalid versions
// and other errors are rejected with a remediation.
func TestVersions(t *testing.T) {
	s := useTestbed(t)
	for name, tt := range map[string]struct {
		env  []string
		want string // part of the output
	}{
		"no release": {
			[]string{"ALLOW_DIRTY=1", "VERSION=v0.0.0-20261122030815-10d135d4d4a3+dirty"},
			"/http01-proxyd-0.0.0~20261122030815.10d135d4d4a3+dirty-1." + rpmArchitecture + ".rpm",
		},
		// nothing is built
		"its own": {[]string{"GO=/root/no-go"}, "/http01-proxyd-" + firstInRPM + "." + rpmArchitecture +
			".rpm"},
		"other version": {[]string{"VERSION=" + second}, "make rpm: the version of /root/" + first + " is " +
			first + ", not VERSION=" + second + ": leave VERSION out, "},
		"no version": {
			[]string{"ALLOW_DIRTY=1", "VERSION=1.2.3"},
			"the version 1.2.3 is not of the form v1.2.3 or v1.2.3-rc.1: ",
		},
		"rehearsal":      {[]string{"ALLOW_DIRTY=maybe"}, "invalid ALLOW_DIRTY=maybe: "},
		"no such binary": {[]string{"BINARY=/root/none", "VERSION=" + first}, "/root/none does not exist"},
		"other binary": {
			[]string{"BINARY=/bin/ls"},
			"make rpm: /usr/bin/ls has no record of being http01-proxyd: give another file with BINARY=",
		},
		"program of the admin": {[]string{"BINARY=/root/" + adminTool}, "make rpm: /root/" + adminTool + " is " +
			adminTool + ", not http01-proxyd: give another file with BINARY="},
		"architecture": {[]string{"ARCHITECTURE=mips", "VERSION=" + first}, "ARCHITECTURE=mips is not supported"},
		"other architecture": {
			[]string{"ARCHITECTURE=" + otherArchitecture, "VERSION=" + first},
			"is not a program for " + otherArchitecture,
		},
		"architecture of the RPM": {[]string{"ARCHITECTURE=" + rpmArchitecture, "VERSION=" + first}, "." + rpmArchitecture +
			".rpm"},
		"no date": {[]string{"SOURCE_DATE_EPOCH=", "VERSION=" + first}, "give SOURCE_DATE_EPOCH"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"SOURCE_DATE_EPOCH=" + epoch, "BINARY=/root/" + first, "ARCHITECTURE=" + architecture},
				tt.env...)
			args = append(args, "make", "-C", source, "rpm", "DIST=/root/versions")
			out, err := s.edge.Run(t.Context(), "env", args...)
			if got := fmt.Sprint(out, err); !strings.Contains(got, tt.want) || (err == nil) != strings.HasSuffix(tt.want,
				".rpm") {
				t.Errorf("make rpm: %s\nwant %q", got, tt.want)
			}
		})
	}
}
