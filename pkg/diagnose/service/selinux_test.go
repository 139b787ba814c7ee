// SPDX-License-Identifier: Apache-2.0

package service

import (
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

// TestSELinux covers labels in the form of RHEL CoreOS. The hosts of
// the tests have no SELinux policy, so these cannot be produced.
func TestSELinux(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		s       selinux
		id      findings.ID
		message string
	}{
		"none":              {selinux{label: "system_u:object_r:container_file_t:s0"}, "", ""},
		"its place's type":  {selinux{enforcing: true, label: "system_u:object_r:bin_t:s0"}, "", ""},
		"a type of its own": {selinux{enforcing: true, label: "system_u:object_r:http01_proxyd_exec_t:s0"}, "", ""},
		"out of a container": {
			selinux{enforcing: true, label: "system_u:object_r:container_file_t:s0:c1,c2"},
			"selinux-label", "/usr/local/bin/http01-proxyd has the type container_file_t",
		},
		"copied from a home": {
			selinux{enforcing: true, label: "unconfined_u:object_r:user_home_t:s0"},
			"selinux-label",
			"user_home_t",
		},
		"no label": {selinux{enforcing: true}, "", ""},
		"the remover's type": {
			selinux{enforcing: true, remover: "system_u:object_r:var_t:s0"},
			"selinux-unit",
			"http01-proxyd-install.service has the type var_t",
		},
		"its policy's type": {selinux{enforcing: true, remover: "system_u:object_r:systemd_unit_file_t:s0"}, "", ""},
		"a library's type":  {selinux{enforcing: true, remover: "system_u:object_r:lib_t:s0"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tt.s.findings(programPath)
			switch {
			case tt.id == "" && len(got) == 0:
			case len(got) != 1 || got[0].ID != tt.id || !strings.Contains(got[0].Message, tt.message):
				t.Errorf("got %+v, want %s", got, tt.id)
			}
		})
	}
}
