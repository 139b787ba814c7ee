// SPDX-License-Identifier: Apache-2.0

package mcd_test

import (
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/mcd"
)

func TestDrift(t *testing.T) {
	const (
		unit   = "/etc/systemd/system/app.service"
		dropin = "/etc/systemd/system/app.service.d/10.conf"
		config = "/etc/app/config.yaml"
	)
	tests := []struct {
		name    string
		flavour mcd.Flavour
		change  func(*machine)
		want    []string // parts of the error; none: no drift
	}{
		{name: "untouched", change: func(*machine) {}},
		{name: "a file's last byte", change: func(m *machine) { m.files[config] = "y" }, want: []string{config + " has"}},
		{name: "a file's mode", change: func(m *machine) { m.modes[config] = 0o640 }, want: []string{config + " has mode 0100640, not 0100600"}},
		{name: "a file that is gone", change: func(m *machine) { delete(m.files, config) }, want: []string{"stat " + config}},
		{name: "a unit's text", change: func(m *machine) { m.files[unit] += "#" }, want: []string{unit + " has"}},
		{name: "a drop-in's mode", change: func(m *machine) { m.modes[dropin] = 0o600 }, want: []string{dropin + " has mode"}},
		{
			name:   "all differences",
			change: func(m *machine) { m.files[unit], m.files[config] = "", "" }, want: []string{unit, config},
		},
		{
			name:   "the unit was disabled manually",
			change: func(m *machine) { m.enabled["app.service"] = false }, want: []string{"unit app.service is disabled"},
		},
		{
			name:   "a disabled unit was enabled manually",
			change: func(m *machine) { m.enabled["off.service"] = true }, want: []string{"unit off.service is enabled"},
		},
		{
			name: "4.17 does not look at enablement", flavour: mcd.OpenShift417,
			change: func(m *machine) { m.enabled["app.service"] = false },
		},
		{name: "a foreign file", change: func(m *machine) { m.files["/etc/app/other"] = "" }},
		{name: "an empty drop-in may be absent or empty", change: func(m *machine) {
			m.files["/etc/systemd/system/app.service.d/20.conf"] = ""
			m.modes["/etc/systemd/system/app.service.d/20.conf"] = 0o644
		}},
		{name: "an empty drop-in with text", change: func(m *machine) {
			m.files["/etc/systemd/system/app.service.d/20.conf"] = "[Unit]"
			m.modes["/etc/systemd/system/app.service.d/20.conf"] = 0o644
		}, want: []string{"20.conf has"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine()
			d := &mcd.Daemon{Machine: m, Policy: readPolicy(t, policy), Flavour: tt.flavour}
			r := d.Update(t.Context(), render(t, mc("98-app").
				fileWith(config, map[string]any{"contents": map[string]any{"source": "data:,x"}, "mode": 0o600}).
				unitWith("app.service", map[string]any{"contents": "one", "enabled": true, "dropins": []any{
					map[string]any{"name": "10.conf", "contents": "d"}, map[string]any{"name": "20.conf"},
				}}).
				unitWith("off.service", map[string]any{"contents": "off", "enabled": false})))
			if r.Degraded != nil {
				t.Fatal(r)
			}
			tt.change(m)
			err := d.Drift(t.Context())
			if (err != nil) != (len(tt.want) > 0) {
				t.Fatalf("drift: %v", err)
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("no %q in the error: %v", part, err)
				}
			}
		})
	}
}
