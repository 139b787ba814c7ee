// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// readMemory updates a Reader from a file in memory. A file that f lacks is absent.
func readMemory(r *Reader, f files, name string, now time.Time) Snapshot {
	text, ok := f[name]
	if !ok {
		return r.update(Discovery{}, "", fs.ErrNotExist, now)
	}
	vips, err := f.read(name)
	return r.update(Discovery{VIPs: vips}, text, err, now)
}

// configText returns a file with instances, given as alternating names and comma-separated
// addresses.
func configText(instances ...string) string {
	var out strings.Builder
	out.WriteString("global_defs {\n}\n")
	for i := 0; i < len(instances); i += 2 {
		fmt.Fprintf(&out, "vrrp_instance x_%s {\n virtual_ipaddress {\n  %s\n }\n}\n", instances[i],
			strings.ReplaceAll(instances[i+1], ",", "\n  "))
	}
	return out.String()
}

func TestReader(t *testing.T) {
	const absent = "absent"
	var (
		full  = configText("API_0", "192.0.2.5", "INGRESS_0", "192.0.2.6")
		dual  = full + configText("API_1", "2001:db8::5", "INGRESS_1", "2001:db8::6")
		noAPI = configText("INGRESS_0", "192.0.2.6")
		half  = full[:len(full)-3]
	)
	const s = time.Second
	type step struct {
		at    time.Duration
		text  string
		api   []string
		ingr  []string
		known bool
		stale bool
		err   error
		retry time.Duration
	}
	v4, i4 := []string{"192.0.2.5"}, []string{"192.0.2.6"}
	good := step{at: 0, text: full, api: v4, ingr: i4, known: true}
	tests := []struct {
		name  string
		steps []step
	}{
		{name: "partly written at the start, then complete", steps: []step{
			{text: "", err: ErrIncomplete, retry: settleTime},
			{at: 1 * s, text: half, err: ErrIncomplete, retry: settleTime},
			{at: 2 * s, text: half, err: ErrIncomplete, retry: 1 * s},
			{at: 9 * s, text: half, err: ErrIncomplete},
			{at: 10 * s, text: full, api: v4, ingr: i4, known: true},
		}},
		{name: "no file is accepted", steps: []step{
			{text: absent, known: true, err: fs.ErrNotExist},
			{at: 1 * s, text: half, known: true, stale: true, err: ErrIncomplete, retry: settleTime},
			{at: 1 * s, text: full, api: v4, ingr: i4, known: true},
		}},
		{name: "no instance is accepted after a while", steps: []step{
			{text: noAPI, err: ErrNoAPIInstance, retry: settleTime},
			{at: 1500 * time.Millisecond, text: noAPI, err: ErrNoAPIInstance, retry: 500 * time.Millisecond},
			{at: 2 * s, text: noAPI, ingr: i4, known: true, err: ErrNoAPIInstance},
			{at: 3 * s, text: noAPI + "\n", ingr: i4, known: true, err: ErrNoAPIInstance},
			{at: 3 * s, text: full, api: v4, ingr: i4, known: true},
		}},
		{name: "an invalid file never takes effect", steps: []step{
			good,
			{at: 1 * s, text: half, api: v4, ingr: i4, known: true, stale: true, err: ErrIncomplete, retry: settleTime},
			{at: 1000 * s, text: half, api: v4, ingr: i4, known: true, stale: true, err: ErrIncomplete},
			{
				at: 1000 * s, text: dual, api: []string{"192.0.2.5", "2001:db8::5"}, ingr: []string{"192.0.2.6", "2001:db8::6"},
				known: true,
			},
		}},
		{name: "a deleted file takes effect after a while", steps: []step{
			good,
			{at: 1 * s, text: absent, api: v4, ingr: i4, known: true, stale: true, err: fs.ErrNotExist, retry: settleTime},
			{at: 3*s - 1, text: absent, api: v4, ingr: i4, known: true, stale: true, err: fs.ErrNotExist, retry: 1},
			{at: 3 * s, text: absent, known: true, err: fs.ErrNotExist},
		}},
		{name: "deleted and created again in time", steps: []step{
			good,
			{at: 1 * s, text: absent, api: v4, ingr: i4, known: true, stale: true, err: fs.ErrNotExist, retry: settleTime},
			{at: 2 * s, text: full, api: v4, ingr: i4, known: true},
			{at: 3 * s, text: absent, api: v4, ingr: i4, known: true, stale: true, err: fs.ErrNotExist, retry: settleTime},
		}},
		{name: "a change of content restarts the wait", steps: []step{
			good,
			{at: 1 * s, text: noAPI, api: v4, ingr: i4, known: true, stale: true, err: ErrNoAPIInstance, retry: settleTime},
			{
				at: 2 * s, text: noAPI + "#\n", api: v4, ingr: i4, known: true, stale: true, err: ErrNoAPIInstance,
				retry: settleTime,
			},
			{at: 3 * s, text: noAPI + "#\n", api: v4, ingr: i4, known: true, stale: true, err: ErrNoAPIInstance, retry: 1 * s},
			{at: 4 * s, text: noAPI + "#\n", ingr: i4, known: true, err: ErrNoAPIInstance},
		}},
		{name: "a changed VIP takes effect at once", steps: []step{
			good,
			{
				at: 1, text: configText("API_0", "192.0.2.7", "INGRESS_0", "192.0.2.8"), api: []string{"192.0.2.7"},
				ingr: []string{"192.0.2.8"}, known: true,
			},
		}},
		{name: "one family of two is lost", steps: []step{
			{text: dual, api: []string{"192.0.2.5", "2001:db8::5"}, ingr: []string{"192.0.2.6", "2001:db8::6"}, known: true},
			{
				at: 1 * s, text: full, api: []string{"192.0.2.5", "2001:db8::5"}, ingr: []string{"192.0.2.6", "2001:db8::6"},
				known: true, stale: true, err: errFewerVIPs, retry: settleTime,
			},
			{at: 3 * s, text: full, api: v4, ingr: i4, known: true},
		}},
		{name: "a clock that goes back restarts the wait", steps: []step{
			{at: 5 * s, text: full, api: v4, ingr: i4, known: true},
			{at: 6 * s, text: absent, api: v4, ingr: i4, known: true, stale: true, err: fs.ErrNotExist, retry: settleTime},
			{at: 1 * s, text: absent, api: v4, ingr: i4, known: true, stale: true, err: fs.ErrNotExist, retry: settleTime},
			{at: 3 * s, text: absent, known: true, err: fs.ErrNotExist},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := files{}
			r := NewReader("/k.conf")
			for i, st := range tt.steps {
				if st.text == absent {
					delete(f, "/k.conf")
				} else {
					f["/k.conf"] = st.text
				}
				got := readMemory(r, f, "/k.conf", time.Unix(1000, 0).Add(st.at))
				if !errors.Is(got.Err, st.err) || (got.Err != nil) != (st.err != nil) {
					t.Errorf("step %d: error %v, want %v", i, got.Err, st.err)
				}
				got.Err = nil
				got.Discovery = Discovery{VIPs: got.Discovery.VIPs}
				want := Snapshot{
					Discovery: Discovery{VIPs: VIPs{API: parseAddrs(st.api...), Ingress: parseAddrs(st.ingr...)}},
					Known:     st.known, Stale: st.stale, RetryAfter: st.retry,
				}
				if diff := cmp.Diff(want, got, compareAddrs); diff != "" {
					t.Errorf("step %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

func TestReaderOnDisk(t *testing.T) {
	dir := t.TempDir()
	main, part := filepath.Join(dir, "keepalived.conf"), filepath.Join(dir, "part.vips")
	writeFile(t, main, "vrrp_instance x_API_0 {\n virtual_ipaddress {\n  include *.vips\n }\n}\n")
	writeFile(t, part, "192.0.2.5\n")
	r := NewReader(main)
	now := time.Unix(1000, 0)

	got := r.Read(now)
	if diff := cmp.Diff(parseAddrs("192.0.2.5"), got.Discovery.VIPs.API, compareAddrs); diff != "" || got.Stale ||
		got.Err != nil {
		t.Fatalf("at first: %+v\n%s", got, diff)
	}
	if diff := cmp.Diff([]string{main, dir, part}, got.Discovery.Files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	must(t, os.Remove(part))
	if got = r.Read(now); !got.Stale || !errors.Is(got.Err, ErrNoAPIInstance) || !slices.Contains(got.Discovery.Files,
		part) {
		t.Errorf("without the included file: %+v", got)
	}
	writeFile(t, part, "192.0.2.7\n")
	got = r.Read(now)
	if diff := cmp.Diff(parseAddrs("192.0.2.7"), got.Discovery.VIPs.API, compareAddrs); diff != "" || got.Stale ||
		got.Err != nil {
		t.Errorf("with another included file: %+v\n%s", got, diff)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

// must ends the test with an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
