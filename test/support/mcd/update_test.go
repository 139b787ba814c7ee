// SPDX-License-Identifier: Apache-2.0

package mcd_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/test/support/mcd"
)

const policy = `
kind: MachineConfiguration
spec:
  nodeDisruptionPolicy:
    files:
    - {path: /etc/app, actions: [{type: None}]}
    - {path: /etc/app/loud, actions: [{type: Restart, restart: {serviceName: app.service}}]}
    - {path: /etc/other, actions: [{type: Reload, reload: {serviceName: other.service}}]}
    - {path: /etc/drained, actions: [{type: Drain}, {type: DaemonReload}]}
    - {path: /etc/rebooting, actions: [{type: Reboot}]}
    units:
    - name: app.service
      actions: [{type: DaemonReload}, {type: Restart, restart: {serviceName: app.service}}]
    - name: app-install.service
      actions: [{type: DaemonReload}, {type: Restart, restart: {serviceName: app.service}}]
    - name: quiet.service
      actions: [{type: None}]
`

// TestUpdate compares the operations on the host, in order, when one config follows
// another.
func TestUpdate(t *testing.T) {
	app := func() *object { return mc("98-app").unit("app.service", "one") }
	twice := []string{"systemctl daemon-reload", "systemctl restart app.service"}
	tests := []struct {
		name    string
		flavour mcd.Flavour
		from    []*object
		to      []*object
		done    []string
		actions []string
		reboot  bool
		drain   bool
	}{
		{
			name: "first install: files, units, enable once, then actions, those of files first and nothing left out",
			to: []*object{mc("98-app").
				file("/etc/app/loud/a", "1").file("/etc/app/config.yaml", "x").
				unit("app.service", "one").unit("app-install.service", "two").
				unitWith("quiet.service", map[string]any{"contents": "q", "enabled": false})},
			done: slices.Concat(
				[]string{
					"write /etc/app/loud/a", "write /etc/app/config.yaml",
					"write /etc/systemd/system/app.service", "write /etc/systemd/system/app-install.service",
					"write /etc/systemd/system/quiet.service",
					"systemctl enable app.service app-install.service", "systemctl disable quiet.service",
					"systemctl restart app.service",
				}, twice, twice),
			actions: []string{
				"Restart app.service",
				"DaemonReload", "Restart app.service", "DaemonReload", "Restart app.service",
			},
		},
		{
			name: "no change: files are written, units are not",
			from: []*object{app().file("/etc/app/a", "1")}, to: []*object{app().file("/etc/app/a", "1")},
			done: []string{"write /etc/app/a"}, actions: []string{"None"},
		},
		{
			name: "4.17 writes and enables every unit each time", flavour: mcd.OpenShift417,
			from: []*object{app().file("/etc/app/a", "1")}, to: []*object{app().file("/etc/app/a", "2")},
			done: []string{
				"write /etc/app/a", "systemctl disable app.service", "write /etc/systemd/system/app.service",
				"systemctl enable app.service",
			},
			actions: []string{"None"},
		},
		{
			name: "a changed unit is disabled before it is written, and None is dropped beside other actions",
			from: []*object{app().file("/etc/app/a", "1")},
			to:   []*object{mc("98-app").unit("app.service", "two").file("/etc/app/a", "2")},
			done: append([]string{
				"write /etc/app/a", "systemctl disable app.service", "write /etc/systemd/system/app.service",
				"systemctl enable app.service",
			}, twice...),
			actions: []string{"DaemonReload", "Restart app.service"},
		},
		{
			name: "None alone is one None",
			to:   []*object{mc("98-app").file("/etc/app/a", "1").file("/etc/app/b", "1")},
			done: []string{"write /etc/app/a", "write /etc/app/b"}, actions: []string{"None"},
		},
		{
			name: "removal: preset while the unit's file is there, then the file, then actions",
			from: []*object{mc("98-app").file("/etc/app/a", "1").unitWith("app.service", map[string]any{
				"contents": "one", "enabled": true,
				"dropins": []any{map[string]any{"name": "10.conf", "contents": "d"}},
			})},
			done: append([]string{
				"remove /etc/app/a", "remove /etc/systemd/system/app.service.d/10.conf",
				"systemctl preset app.service", "remove /etc/systemd/system/app.service",
			}, twice...),
			actions: []string{"DaemonReload", "Restart app.service"},
		},
		{
			name: "a drop-in is replaced by another",
			from: []*object{mc("98-app").unitWith("app.service", map[string]any{
				"dropins": []any{
					map[string]any{"name": "10.conf", "contents": "d"},
					map[string]any{"name": "20.conf", "contents": "d"},
				},
			})},
			to: []*object{mc("98-app").unitWith("app.service", map[string]any{
				"dropins": []any{
					map[string]any{"name": "20.conf", "contents": ""},
					map[string]any{"name": "30.conf", "contents": "d"},
				},
			})},
			done: append([]string{
				"remove /etc/systemd/system/app.service.d/20.conf", "write /etc/systemd/system/app.service.d/30.conf",
				"systemctl preset app.service", "remove /etc/systemd/system/app.service.d/10.conf",
			}, twice...),
			actions: []string{"DaemonReload", "Restart app.service"},
		},
		{
			name: "a unit without enabled gets its preset, and one without a file is left alone",
			to: []*object{mc("98-app").
				unitWith("quiet.service", map[string]any{"contents": "q"}).
				unitWith("app.service", map[string]any{"enabled": true})},
			done: append([]string{
				"write /etc/systemd/system/quiet.service", "systemctl preset quiet.service",
			}, twice...),
			actions: []string{"DaemonReload", "Restart app.service"},
		},
		{
			name: "4.18 enables a unit without a file", flavour: mcd.OpenShift418,
			to:      []*object{mc("98-app").unitWith("app.service", map[string]any{"enabled": true})},
			done:    append([]string{"systemctl enable app.service"}, twice...),
			actions: []string{"DaemonReload", "Restart app.service"},
		},
		{
			name: "a mask",
			to:   []*object{mc("98-app").unitWith("quiet.service", map[string]any{"mask": true})},
			done: []string{
				"ln -s /dev/null /etc/systemd/system/quiet.service", "systemctl preset quiet.service",
			},
			actions: []string{"None"},
		},
		{
			name: "no policy for a unit",
			to:   []*object{app().unit("stranger.service", "s")},
			done: []string{
				"write /etc/systemd/system/app.service", "write /etc/systemd/system/stranger.service",
				"systemctl enable app.service stranger.service",
			},
			actions: []string{"Reboot"}, reboot: true, drain: true,
		},
		{
			name: "no policy for a path with a similar prefix",
			to:   []*object{mc("98-app").file("/etc/application", "1")},
			done: []string{"write /etc/application"}, actions: []string{"Reboot"}, reboot: true, drain: true,
		},
		{
			name: "no policy for a removed file",
			from: []*object{mc("98-app").file("/etc/application", "1")},
			done: []string{"remove /etc/application"}, actions: []string{"Reboot"}, reboot: true, drain: true,
		},
		{
			name: "a reboot replaces other actions",
			to:   []*object{mc("98-app").file("/etc/app/loud/a", "1").file("/etc/rebooting", "1")},
			done: []string{"write /etc/app/loud/a", "write /etc/rebooting"}, actions: []string{"Reboot"}, reboot: true, drain: true,
		},
		{
			name: "a drain comes before the files and is no command",
			to:   []*object{mc("98-app").file("/etc/drained", "1")},
			done: []string{"write /etc/drained", "systemctl daemon-reload"}, actions: []string{"DaemonReload"}, drain: true,
		},
		{
			name: "a change outside Ignition reboots",
			from: []*object{mc("98-app")}, to: []*object{mc("98-app").with("osImageURL", "quay.io/os@sha256:1")},
			actions: []string{"Reboot"}, reboot: true, drain: true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine()
			d := &mcd.Daemon{Machine: m, Policy: readPolicy(t, policy), Flavour: tt.flavour}
			if tt.from != nil {
				if r := d.Update(t.Context(), render(t, tt.from...)); r.Degraded != nil {
					t.Fatal(r)
				}
			}
			m.takeLog()
			to := render(t, tt.to...)
			r := d.Update(t.Context(), to)
			if r.Degraded != nil {
				t.Fatal(r)
			}
			if diff := cmp.Diff(tt.done, m.takeLog()); diff != "" {
				t.Errorf("done to the host (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.actions, names(r)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if r.Rebooted != tt.reboot || r.Drained != tt.drain {
				t.Errorf("rebooted %t, drained %t", r.Rebooted, r.Drained)
			}
			if d.Current().Name != to.Name {
				t.Errorf("current config is %s", d.Current().Name)
			}
			if err := d.Drift(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func names(r mcd.Report) []string {
	var all []string
	for _, a := range r.Actions {
		all = append(all, a.String())
	}
	return all
}

// TestFailedAction holds that the first failed action ends the update: the old files are
// restored without any action, the node is Degraded, and another attempt repeats the
// update.
func TestFailedAction(t *testing.T) {
	for _, flavour := range []mcd.Flavour{mcd.OpenShift420, mcd.OpenShift418, mcd.OpenShift417} {
		t.Run(flavour.String(), func(t *testing.T) {
			m := newMachine()
			d := &mcd.Daemon{Machine: m, Policy: readPolicy(t, policy), Flavour: flavour}
			old := render(t, mc("98-app").file("/etc/app/a", "1").unit("app.service", "one"))
			if r := d.Update(t.Context(), old); r.Degraded != nil {
				t.Fatal(r)
			}
			m.takeLog()
			before := maps.Clone(m.files)
			to := render(t, mc("98-app").file("/etc/app/b", "1").unit("app.service", "two").unit("app-install.service", "i"))
			broken := errors.New("job failed")
			m.fails["systemctl restart app.service"] = broken
			r := d.Update(t.Context(), to)
			if !errors.Is(r.Degraded, broken) || !strings.HasPrefix(r.Degraded.Error(), "action Restart app.service failed: ") {
				t.Errorf("degraded: %v", r.Degraded)
			}
			if diff := cmp.Diff([]string{"DaemonReload", "Restart app.service"}, names(r)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if len(r.Decided) != 4 {
				t.Errorf("decided: %v", r.Decided)
			}
			write := []string{
				"write /etc/systemd/system/app-install.service",
				"systemctl disable app.service", "write /etc/systemd/system/app.service",
				"systemctl enable app-install.service app.service",
			}
			if flavour == mcd.OpenShift417 {
				// In the order of the config, not new units first.
				write = []string{
					"systemctl disable app.service", "write /etc/systemd/system/app.service",
					"write /etc/systemd/system/app-install.service",
					"systemctl enable app.service app-install.service",
				}
			}
			want := slices.Concat([]string{"write /etc/app/b"}, write, []string{
				"remove /etc/app/a",
				"systemctl daemon-reload", "systemctl restart app.service",

				"write /etc/app/a",
				"systemctl disable app.service", "write /etc/systemd/system/app.service",
				"systemctl enable app.service",
				"remove /etc/app/b",
				"systemctl preset app-install.service", "remove /etc/systemd/system/app-install.service",
			})
			if diff := cmp.Diff(want, m.takeLog()); diff != "" {
				t.Errorf("done to the host (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, m.files); diff != "" {
				t.Errorf("files (-before +after the roll-back):\n%s", diff)
			}
			if d.Current().Name != old.Name {
				t.Errorf("current config is %s", d.Current().Name)
			}
			if err := d.Drift(t.Context()); err != nil {
				t.Error(err)
			}

			delete(m.fails, "systemctl restart app.service")
			if r := d.Update(t.Context(), to); r.Degraded != nil || len(r.Actions) != 4 {
				t.Errorf("second try: %v", r)
			}
		})
	}
}

// TestFailedWrite holds that there is no roll-back when a file cannot be written, as
// upstream.
func TestFailedWrite(t *testing.T) {
	m := newMachine()
	d := &mcd.Daemon{Machine: m, Policy: readPolicy(t, policy)}
	full := errors.New("no space left on device")
	m.fails["write /etc/app/b"] = full
	r := d.Update(t.Context(), render(t, mc("98-app").file("/etc/app/a", "1").file("/etc/app/b", "1")))
	if !errors.Is(r.Degraded, full) || len(r.Actions) != 0 || d.Current().Name != "" {
		t.Errorf("%+v", r)
	}
	if diff := cmp.Diff([]string{"write /etc/app/a"}, m.takeLog()); diff != "" {
		t.Errorf("done to the host (-want +got):\n%s", diff)
	}
}

// TestFailedRollBack holds that a failed roll-back is reported too.
func TestFailedRollBack(t *testing.T) {
	m := newMachine()
	d := &mcd.Daemon{Machine: m, Policy: readPolicy(t, policy)}
	if r := d.Update(t.Context(), render(t, mc("98-app").unit("app.service", "one"))); r.Degraded != nil {
		t.Fatal(r)
	}
	broken, full := errors.New("job failed"), errors.New("unit is bad")
	m.fails["systemctl restart app.service"] = broken
	m.fails["systemctl enable app.service"] = full
	r := d.Update(t.Context(), render(t, mc("98-app").unitWith("app.service", map[string]any{"contents": "two", "enabled": false})))
	if !errors.Is(r.Degraded, broken) || !errors.Is(r.Degraded, full) {
		t.Errorf("degraded: %v", r.Degraded)
	}
}

// TestShuffle holds that the order among files and among units is random, and that files
// precede units.
func TestShuffle(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(64) {
		d := &mcd.Daemon{Machine: newMachine(), Policy: readPolicy(t, `
kind: MachineConfiguration
spec:
  nodeDisruptionPolicy:
    files:
    - {path: /etc/a, actions: [{type: Restart, restart: {serviceName: a.service}}]}
    - {path: /etc/b, actions: [{type: Restart, restart: {serviceName: b.service}}]}
    units:
    - {name: c.service, actions: [{type: Restart, restart: {serviceName: c.service}}]}
    - {name: d.service, actions: [{type: Restart, restart: {serviceName: d.service}}]}
`), Shuffle: rand.New(rand.NewPCG(seed, 0)).Shuffle}
		r := d.Update(t.Context(), render(t, mc("98-app").
			file("/etc/a", "1").file("/etc/b", "1").unit("c.service", "c").unit("d.service", "d")))
		if r.Degraded != nil {
			t.Fatal(r)
		}
		order := strings.ReplaceAll(strings.Join(names(r), " "), "Restart ", "")
		seen[strings.ReplaceAll(order, ".service", "")] = true
	}
	want := []string{"a b c d", "a b d c", "b a c d", "b a d c"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(seen))); diff != "" {
		t.Errorf("orders (-want +got):\n%s", diff)
	}
}

// TestIrreconcilable holds that unsupported changes fail before anything is written.
func TestIrreconcilable(t *testing.T) {
	tests := []struct {
		name string
		to   *object
		want string
	}{
		{"fips", mc("98-app").with("fips", true), "the FIPS flag changes"},
		{"a user", mc("98-app").with("config", map[string]any{
			"ignition": map[string]any{"version": "3.4.0"},
			"passwd":   map[string]any{"users": []any{map[string]any{"name": "app"}}},
		}), "ignition section passwd changes"},
		{"a directory", mc("98-app").with("config", map[string]any{
			"ignition": map[string]any{"version": "3.4.0"},
			"storage":  map[string]any{"directories": []any{map[string]any{"path": "/etc/app"}}},
		}), "ignition section directories changes"},
		{"a link", mc("98-app").with("config", map[string]any{
			"ignition": map[string]any{"version": "3.4.0"},
			"storage":  map[string]any{"links": []any{map[string]any{"path": "/etc/app", "target": "/etc/b"}}},
		}), "ignition section links changes"},
		{"an append", mc("98-app").fileWith("/etc/app/a", map[string]any{
			"append": []any{map[string]any{"source": "data:,x"}},
		}), "/etc/app/a has an append"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine()
			d := &mcd.Daemon{Machine: m, Policy: readPolicy(t, policy)}
			r := d.Update(t.Context(), render(t, tt.to))
			if r.Degraded == nil || !strings.Contains(r.Degraded.Error(), tt.want) {
				t.Errorf("degraded: %v", r.Degraded)
			}
			if len(m.log) > 0 {
				t.Errorf("done to the host: %q", m.log)
			}
		})
	}
}

// TestReportString compares the text of a report.
func TestReportString(t *testing.T) {
	r := mcd.Report{
		From: "rendered-master-1", To: "rendered-master-2", Took: 1234567 * time.Microsecond,
		Actions: []mcd.ActionResult{
			{Action: mcd.Action{Type: mcd.DaemonReload}, Took: 12 * time.Millisecond},
			{Action: mcd.Action{Type: mcd.Restart, Service: "app.service"}, Took: time.Second, Err: errors.New("job failed")},
		},
		Notes:    []string{"preset units: no such unit"},
		Degraded: errors.New("action Restart app.service failed: job failed"),
	}
	want := `update from "rendered-master-1" to "rendered-master-2" in 1.235s
  DaemonReload: 12ms
  Restart app.service: 1s: job failed
  ignored: preset units: no such unit
  Degraded: action Restart app.service failed: job failed
`
	if diff := cmp.Diff(want, r.String()); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}
