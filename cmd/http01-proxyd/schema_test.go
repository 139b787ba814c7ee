// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"io"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
	"github.com/http01-proxyd/http01-proxyd/internal/schematest"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/verdict"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

var update = flag.Bool("update", false, "write the schemas and the documents that are generated")

// execute runs a command line, which must end with this exit code.
func execute(t *testing.T, code int, args ...string) (out, errOut []byte) {
	t.Helper()
	var o, e strings.Builder
	if got := cli.Execute(t.Context(), rootCommand(), args, cli.Streams{Out: &o, Err: &e}); got != code {
		t.Errorf("%q: exit code %d, want %d\n%s", args, got, code, e.String())
	}
	return []byte(o.String()), []byte(e.String())
}

// TestSchemas holds docs/reference/*.schema.json to the types and to real output.
func TestSchemas(t *testing.T) {
	t.Chdir("../..")
	version, _ := execute(t, cli.OK, "version", "-o", "json")
	schematest.Check[cli.VersionDocument](t, *update, "version", "Version", []string{"cmd/internal/cli"}, version)

	_, failed := execute(t, cli.Failure, "status", "-o", "json", "--status-socket", "/dev/null/none.sock")
	_, misused := execute(t, cli.Usage, "explain", "-ojson", "nothing")
	schematest.Check[cli.ErrorDocument](t, *update, "error", "Error", []string{"cmd/internal/cli"}, failed, misused)

	list, _ := execute(t, cli.OK, "explain", "--list", "-o", "json")
	schematest.Check[terminal.FindingList](t, *update, "findings", "FindingList", []string{"cmd/internal/terminal"}, list)

	checks, _ := execute(t, cli.OK, "check", "--list", "-o", "json")
	schematest.Check[CheckList](t, *update, "checks", "CheckList", []string{"cmd/http01-proxyd", "pkg/diagnose"}, checks)

	dir := t.TempDir()
	paths := []string{
		"check", "-o", "json", "--config", dir + "/config.yaml", "--state-dir", dir, "--status-socket",
		dir + "/none.sock", "--manifests", dir, "--disabled-manifests", dir,
	}
	if err := os.WriteFile(dir+"/config.yaml", []byte("vips: {keepalivedConfig: "+dir+"/keepalived.conf}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	nothing, _ := execute(t, cli.Unknown, paths...)
	if err := os.WriteFile(dir+"/config.yaml", []byte("upstream: {prot: 80}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rejected, _ := execute(t, cli.Unhealthy, append(paths, "--only", "config,trust,vips")...)
	if !strings.Contains(string(rejected), `"notChecked": "configuration rejected"`) || !strings.Contains(string(rejected),
		`"id": "config-invalid"`) {
		t.Errorf("a rejected configuration:\n%s", rejected)
	}
	unknown, _ := execute(t, cli.Unknown, append(paths, "--only", "trust")...)
	allFields := result.Report{}
	fill(reflect.ValueOf(&allFields).Elem(), false)
	var whole strings.Builder
	if err := cli.WriteDocument(&whole, cli.JSON, allFields.Document()); err != nil {
		t.Fatal(err)
	}
	schematest.Check[result.Document](t, *update, "check", "Check", []string{"pkg/diagnose/result", "pkg/findings"},
		nothing, rejected, unknown, []byte(whole.String()))

	packet := report.TracedPacket{}
	fill(reflect.ValueOf(&packet).Elem(), false)
	packet.End = report.TraceDropped
	var traced, none strings.Builder
	writeDocument := func(w io.Writer, packets ...report.TracedPacket) {
		r := report.Trace{
			Header: report.NewHeader("Trace"), VIPs: []netip.Addr{}, Devices: []report.TracedDevice{},
			Packets: append([]report.TracedPacket{}, packets...),
		}
		if err := cli.WriteDocument(w, cli.JSON, r); err != nil {
			t.Fatal(err)
		}
	}
	writeDocument(&traced, packet)
	writeDocument(&none)
	schematest.Check[report.Trace](t, *update, "trace", "Trace", nil, []byte(traced.String()), []byte(none.String()))

	documents := make([][]byte, 0, 5)
	full, empty := report.Report{}, report.Report{}
	fill(reflect.ValueOf(&full).Elem(), false)
	fill(reflect.ValueOf(&empty).Elem(), true)
	for _, r := range []report.Report{reports()(), full, empty, {}} {
		s := newService(t)
		stop := s.start(r.WithEmptyLists)
		out, _ := execute(t, cli.OK, "status", "-o", "json", "--status-socket", s.path)
		stop()
		documents = append(documents, out)
	}
	stopped, _ := execute(t, cli.Failure, "status", "-o", "json", "--status-socket", t.TempDir()+"/none.sock")
	documents = append(documents, stopped)
	packages := []string{"pkg/findings", "pkg/findings/verdict"}
	schematest.Check[verdict.Status](t, *update, "status", "Status", packages, documents...)
}

// TestStatusExitCode: --exit-code reports the condition, and a script needs no output.
func TestStatusExitCode(t *testing.T) {
	t.Parallel()
	for status, code := range map[string]int{"True": cli.OK, "False": cli.Unhealthy, "Unknown": cli.Unknown} {
		s := newService(t)
		stop := s.start(func() report.Report {
			return report.Report{Conditions: []report.Condition{{Type: report.ConditionType, Status: status}}}.WithEmptyLists()
		})
		for _, format := range []string{cli.Text, cli.Wide, cli.YAML} {
			out, _ := execute(t, code, "status", "--exit-code", "-o", format, "--status-socket", s.path)
			if (format == cli.YAML) != strings.HasPrefix(string(out),
				"apiVersion: http01-proxyd.github.io/v1alpha1\nkind: Status\n") {
				t.Errorf("-o %s prints\n%s", format, out)
			}
			execute(t, cli.OK, "status", "-o", format, "--status-socket", s.path)
		}
		stop()
	}
	stopped, _ := execute(t, cli.Failure, "status", "--exit-code", "--status-socket", t.TempDir()+"/none.sock")
	if !strings.HasPrefix(string(stopped), "State:          ✗ NotRunning\n") ||
		!strings.HasSuffix(string(stopped), "\n  systemctl enable --now http01-proxyd\n") {
		t.Error(string(stopped))
	}
}

// fill sets every field to a value, and lists to one element. With nilLists, the
// elements have no lists.
func fill(v reflect.Value, nilLists bool) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(1_700_000_000, 0).UTC()))
		return
	case v.CanSet() && v.Kind() == reflect.String:
		v.SetString("text")
	case v.CanInt():
		v.SetInt(1)
	case v.CanUint():
		v.SetUint(1)
	case v.CanFloat():
		v.SetFloat(1.5)
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), nilLists)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		if !nilLists {
			fill(v.Index(0), nilLists)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, nilLists)
		fill(value, nilLists)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	default:
	}
}
