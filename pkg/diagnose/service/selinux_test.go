// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

// TestSELinux covers labels and audit records in the form of RHEL CoreOS. The hosts of
// the tests have no SELinux policy, so these cannot be produced.
func TestSELinux(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	record := func(age time.Duration, comm string) []byte {
		return fmt.Appendf(nil, "type=AVC msg=audit(%d.123:456): avc:  denied  { name_bind } for  pid=4242 comm=%q src=8888 "+
			"scontext=system_u:system_r:init_t:s0 tcontext=system_u:object_r:unreserved_port_t:s0 tclass=tcp_socket permissive=0\n"+
			"type=SYSCALL msg=audit(1800000000.123:456): arch=c000003e syscall=49 success=no\n", now.Add(-age).Unix(), comm)
	}
	unitRecord := func(age time.Duration, name string) []byte {
		return fmt.Appendf(nil, "type=AVC msg=audit(%d.123:456): avc:  denied  { read } for  pid=1 comm=\"systemd\" name=%q dev=\"vda4\" ino=42 "+
			"scontext=system_u:system_r:init_t:s0 tcontext=system_u:object_r:var_t:s0 tclass=file permissive=0\n", now.Add(-age).Unix(), name)
	}
	for name, tt := range map[string]struct {
		s       selinux
		id      findings.ID
		message string
	}{
		"none":               {selinux{label: "system_u:object_r:container_file_t:s0"}, "", ""},
		"its place's type":   {selinux{enforcing: true, label: "system_u:object_r:bin_t:s0"}, "", ""},
		"a type of its own":  {selinux{enforcing: true, label: "system_u:object_r:http01_proxyd_exec_t:s0"}, "", ""},
		"out of a container": {selinux{enforcing: true, label: "system_u:object_r:container_file_t:s0:c1,c2"}, "selinux-label", "/usr/local/bin/http01-proxyd has the type container_file_t"},
		"copied from a home": {selinux{enforcing: true, label: "unconfined_u:object_r:user_home_t:s0"}, "selinux-label", "user_home_t"},
		"no label":           {selinux{enforcing: true}, "", ""},
		"a denial":           {selinux{enforcing: true, audit: record(time.Hour, "http01-proxyd")}, "selinux-denies", "{ name_bind } for  pid=4242"},
		"an old denial":      {selinux{enforcing: true, audit: record(48*time.Hour, "http01-proxyd")}, "", ""},
		"another's denial":   {selinux{enforcing: true, audit: record(time.Hour, "nginx")}, "", ""},
		"the remover's type": {selinux{enforcing: true, remover: "system_u:object_r:var_t:s0"}, "selinux-unit", "http01-proxyd-install.service has the type var_t"},
		"its policy's type":  {selinux{enforcing: true, remover: "system_u:object_r:systemd_unit_file_t:s0"}, "", ""},
		"a library's type":   {selinux{enforcing: true, remover: "system_u:object_r:lib_t:s0"}, "", ""},
		"systemd's denial":   {selinux{enforcing: true, audit: unitRecord(time.Hour, "http01-proxyd-install.service")}, "selinux-unit", `{ read } for  pid=1 comm="systemd" name="http01-proxyd-install.service"`},
		"an old one":         {selinux{enforcing: true, audit: unitRecord(48*time.Hour, "http01-proxyd-install.service")}, "", ""},
		"another's unit":     {selinux{enforcing: true, audit: unitRecord(time.Hour, "nginx.service")}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tt.s.findings(programPath, now)
			switch {
			case tt.id == "" && len(got) == 0:
			case len(got) != 1 || got[0].ID != tt.id || !strings.Contains(got[0].Message, tt.message):
				t.Errorf("got %+v, want %s", got, tt.id)
			}
		})
	}
}
