// SPDX-License-Identifier: Apache-2.0

package machineconfig_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/coreos/ignition/v2/config/v3_4/types"
	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/install"
)

// file returns a valid configuration with a changed file.
func file(change func(*types.File)) types.Config {
	f := types.File{
		Node:          types.Node{Path: "/etc/x"},
		FileEmbedded1: types.FileEmbedded1{Mode: new(0o644), Contents: types.Resource{Source: new("data:,x")}},
	}
	change(&f)
	return types.Config{Storage: types.Storage{Files: []types.File{f}}}
}

func packed(t *testing.T, text []byte) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	must(t, w.Close())
	return "data:;base64," + base64.StdEncoding.EncodeToString(b.Bytes())
}

func unit(u types.Unit) types.Config {
	return types.Config{Systemd: types.Systemd{Units: []types.Unit{u}}}
}

// TestValidateIgnition checks rules that Butane has too, so that the result does not
// depend on its version.
func TestValidateIgnition(t *testing.T) {
	t.Parallel()
	const (
		section = ": the machine-config-daemon cannot change it on a running host, and marks the node degraded: remove it; only files and units can be changed on a running host"
		users   = `passwd.users %q: the machine-config-daemon changes only the keys and the password of core: remove it`
		gone    = ": it does not survive a reboot, and the node would be marked degraded: use /etc, /usr/local or /var"
		written = ": it is written on the host, and the machine-config-daemon marks a node degraded if its files differ from the MachineConfigs: leave it to the installer and the service"
	)
	at := func(path string) types.Config { return file(func(f *types.File) { f.Path = path }) }
	for name, tt := range map[string]struct {
		config types.Config
		want   string // "" for an accepted configuration
	}{
		"nothing":       {types.Config{Ignition: types.Ignition{Version: "3.4.0"}}, ""},
		"file":          {file(func(*types.File) {}), ""},
		"empty file":    {file(func(f *types.File) { f.Contents.Source = nil }), ""},
		"root's file":   {file(func(f *types.File) { f.User.Name, f.Group.ID = new("root"), new(0) }), ""},
		"widest mode":   {file(func(f *types.File) { f.Mode = new(0o777) }), ""},
		"set-user-ID":   {file(func(f *types.File) { f.Mode = new(0o4755) }), "/etc/x: mode 04755: give one up to 0777, without set-user-ID, set-group-ID and sticky bit"},
		"sticky":        {file(func(f *types.File) { f.Mode = new(0o1777) }), "/etc/x: mode 01777: give one up to 0777, without set-user-ID, set-group-ID and sticky bit"},
		"append":        {file(func(f *types.File) { f.Append = []types.Resource{{}} }), "/etc/x: appends to a file: write the whole file"},
		"user by id":    {file(func(f *types.File) { f.User.ID = new(1000) }), "/etc/x: belongs to a user other than root: remove user, or set it to root"},
		"group by name": {file(func(f *types.File) { f.Group.Name = new("adm") }), "/etc/x: belongs to a group other than root: remove group, or set it to root"},
		"remote":        {file(func(f *types.File) { f.Contents.Source = new("https://example.com/") }), "/etc/x: its contents are remote, and the machine-config-daemon does not download files: use inline or local contents"},
		"bad data URL":  {file(func(f *types.File) { f.Contents.Source = new("data:;base64,%%%") }), "/etc/x: not a data URL (invalid data character): use inline or local contents"},
		"not gzip":      {file(func(f *types.File) { f.Contents.Compression = new("gzip") }), "/etc/x: not gzip (unexpected EOF): remove compression: Butane selects it automatically"},
		"torn gzip": {file(func(f *types.File) {
			f.Contents.Compression, f.Contents.Source = new("gzip"), new("data:;base64,H4sIAAAAAAAA/w==")
		}), "/etc/x: its contents cannot be decompressed (unexpected EOF): remove compression: Butane selects it automatically"},
		"xz": {file(func(f *types.File) { f.Contents.Compression = new("xz") }), `/etc/x: compression "xz": remove it: Butane selects gzip automatically`},
		"bomb": {file(func(f *types.File) {
			f.Contents.Compression, f.Contents.Source = new("gzip"), new(packed(t, make([]byte, 4<<20)))
		}), "/etc/x: longer than 262144 bytes: use a smaller file"},
		"larger": {file(func(f *types.File) {
			f.Contents.Compression, f.Contents.Source = new("gzip"), new(packed(t, make([]byte, machineconfig.MaxFile+1)))
		}), "/etc/x: longer than 262144 bytes: use a smaller file"},
		"largest": {file(func(f *types.File) {
			f.Contents.Compression, f.Contents.Source = new("gzip"), new(packed(t, make([]byte, machineconfig.MaxFile)))
		}), ""},

		"below /usr/local":  {at("/usr/local/bin/x"), ""},
		"below /var":        {at("/var/lib/x"), ""},
		"beside /usr/local": {at("/usr/localx/y"), "/usr/localx/y: read-only on image-based hosts: use /etc, /usr/local or /var"},
		"/run":              {at("/run/x"), "/run/x" + gone},
		"force file":        {at("/run/machine-config-daemon-force"), "/run/machine-config-daemon-force: the machine-config-operator refuses it: leave it out"},
		"operator's":        {at("/etc/mco/proxy.env"), "/etc/mco/proxy.env: it belongs to the machine-config-daemon: leave it out"},
		"not shortest":      {at("/etc//x/../x"), "/etc//x/../x: not in its shortest form, so policies by path do not match it: write /etc/x"},
		"installer's":       {at("/usr/local/bin/http01-proxyd.previous"), "/usr/local/bin/http01-proxyd.previous" + written},
		"service's":         {at("/var/lib/http01-proxyd/state/x"), "/var/lib/http01-proxyd/state/x" + written},
		"remover":           {at("/usr/local/lib/systemd/system/http01-proxyd-install.service"), "/usr/local/lib/systemd/system/http01-proxyd-install.service" + written},
		"remover, in /run":  {at("/run/systemd/system/http01-proxyd-install.service"), "/run/systemd/system/http01-proxyd-install.service" + written},
		"another in /run":   {at("/run/systemd/system/x.service"), "/run/systemd/system/x.service" + gone},
		"unit as a file":    {at("/etc/systemd/system/x.service"), "/etc/systemd/system/x.service: units must be delivered as units: list it under systemd.units"},

		"merge":       {types.Config{Ignition: types.Ignition{Config: types.IgnitionConfig{Merge: []types.Resource{{}}}}}, "ignition" + section},
		"CA":          {types.Config{Ignition: types.Ignition{Security: types.Security{TLS: types.TLS{CertificateAuthorities: []types.Resource{{}}}}}}, "ignition" + section},
		"kernel":      {types.Config{KernelArguments: types.KernelArguments{ShouldExist: []types.KernelArgument{"quiet"}}}, "kernelArguments" + section},
		"group":       {types.Config{Passwd: types.Passwd{Groups: []types.PasswdGroup{{Name: "x"}}}}, "passwd.groups" + section},
		"directory":   {types.Config{Storage: types.Storage{Directories: []types.Directory{{}}}}, "storage.directories" + section},
		"disk":        {types.Config{Storage: types.Storage{Disks: []types.Disk{{}}}}, "storage.disks" + section},
		"filesystem":  {types.Config{Storage: types.Storage{Filesystems: []types.Filesystem{{}}}}, "storage.filesystems" + section},
		"link":        {types.Config{Storage: types.Storage{Links: []types.Link{{}}}}, "storage.links" + section},
		"luks":        {types.Config{Storage: types.Storage{Luks: []types.Luks{{}}}}, "storage.luks" + section},
		"raid":        {types.Config{Storage: types.Storage{Raid: []types.Raid{{}}}}, "storage.raid" + section},
		"core":        {types.Config{Passwd: types.Passwd{Users: []types.PasswdUser{{Name: "core", SSHAuthorizedKeys: []types.SSHAuthorizedKey{"k"}}}}}, ""},
		"core, shell": {types.Config{Passwd: types.Passwd{Users: []types.PasswdUser{{Name: "core", Shell: new("/bin/sh")}}}}, fmt.Sprintf(users, "core")},
		"other user":  {types.Config{Passwd: types.Passwd{Users: []types.PasswdUser{{Name: "proxy"}}}}, fmt.Sprintf(users, "proxy")},

		"unit":             {unit(types.Unit{Name: "x.service", Contents: new("[Service]\n")}), ""},
		"masked":           {unit(types.Unit{Name: "x.service", Mask: new(true)}), ""},
		"masked, contents": {unit(types.Unit{Name: "x.service", Mask: new(true), Contents: new("x")}), "x.service: masked, but also enabled or with contents: mask it or deliver it"},
		"masked, enabled":  {unit(types.Unit{Name: "x.service", Mask: new(true), Enabled: new(true)}), "x.service: masked, but also enabled or with contents: mask it or deliver it"},
		"empty drop-in":    {unit(types.Unit{Name: "x.service", Dropins: []types.Dropin{{Name: "a.conf"}}}), "x.service.d/a.conf: an empty drop-in is not written: leave it out"},
		"the daemon's":     {unit(types.Unit{Name: "machine-config-daemon-pull.service"}), "machine-config-daemon-pull.service: it belongs to OpenShift: leave it out"},
		"several": {
			types.Config{Storage: types.Storage{
				Links: []types.Link{{}},
				Files: append(at("/run/x").Storage.Files, file(func(f *types.File) { f.Path, f.Mode = "/tmp/y", new(0o2755) }).Storage.Files...),
			}},
			"storage.links" + section + "\nx.bu: /run/x" + gone + "\nx.bu: /tmp/y" + gone + "\nx.bu: /tmp/y: mode 02755: give one up to 0777, without set-user-ID, set-group-ID and sticky bit",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if err := machineconfig.ValidateIgnition(tt.config); err != nil {
				got = strings.TrimPrefix(err.Error(), "x.bu: ")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestHostWrittenPaths: no file that the installer names can be delivered, except the
// folders of other programs and the installer itself. The names come from the script,
// with the values of its variables, and from the unit that removes all files.
func TestHostWrittenPaths(t *testing.T) {
	t.Parallel()
	script := source(t, "systemd/http01-proxyd-install")
	values := map[string]string{}
	expand := func(name string) string {
		if _, value, ok := strings.Cut(name, ":-"); ok {
			return value
		}
		return values[name]
	}
	for _, found := range regexp.MustCompile(`(?m)^([a-z_]+)=(\S+)`).FindAllStringSubmatch(script, -1) {
		values[found[1]] = os.Expand(found[2], expand)
	}
	others := []string{"/usr/local/bin", "/usr/local/bin/http01-proxyd-install", "/usr/local/lib/systemd", "/usr/local/lib/systemd/catalog", "/usr/local/lib/systemd/system", "/var/lib/kubelet/config.json", "/var/lib/containers"}
	files := make(map[string]bool)
	for _, word := range regexp.MustCompile(`(?:\$[a-z_]+|/(?:usr/local|run|var)/)[\w./$-]*`).FindAllString(script+install.Remover, -1) {
		file := strings.TrimRight(os.Expand(word, expand), "./")
		if regexp.MustCompile(`^/(usr/local|run|var)/`).MatchString(file) && !slices.Contains(others, file) {
			files[file] = true
		}
	}
	for file := range files {
		config := types.Config{Storage: types.Storage{Files: []types.File{{Node: types.Node{Path: file}}}}}
		if err := machineconfig.ValidateIgnition(config); err == nil {
			t.Errorf("%s can be delivered", file)
		}
	}
	for _, file := range []string{values["program"], values["next"], values["program"] + ".previous", values["units"] + "/" + values["remover"], values["opened"], values["run"] + "/lock"} {
		if !files[file] {
			t.Errorf("%q was not found in the script", file)
		}
	}
}

// TestValidateSpec: fields beside the Ignition configuration, and the errors of
// Ignition's own validation.
func TestValidateSpec(t *testing.T) {
	t.Parallel()
	ignition := func(version string, files ...any) map[string]any {
		return map[string]any{"ignition": map[string]any{"version": version}, "storage": map[string]any{"files": files}}
	}
	const reboots = ": a change of it reboots every host, regardless of the policy: put it in a MachineConfig of its own"
	for name, tt := range map[string]struct {
		spec map[string]any
		want []string
	}{
		"config alone":  {map[string]any{"config": ignition("3.4.0")}, nil},
		"older version": {map[string]any{"config": ignition("3.2.0")}, nil},
		"reboots": {
			map[string]any{"osImageURL": "x", "kernelType": "realtime", "fips": true, "config": ignition("3.4.0")},
			[]string{"x.bu: spec.fips" + reboots, "x.bu: spec.kernelType" + reboots, "x.bu: spec.osImageURL" + reboots},
		},
		"newer version": {
			map[string]any{"config": ignition("3.5.0")},
			[]string{`x.bu: spec.config: not an Ignition 3.4 configuration (unsupported config version): set "version: 4.17.0" in the source, which all later releases accept`},
		},
		"no configuration": {
			map[string]any{},
			[]string{`x.bu: spec.config: not an Ignition 3.4 configuration (invalid config version (couldn't parse)): set "version: 4.17.0" in the source, which all later releases accept`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			if err := machineconfig.ValidateSpec(tt.spec); err != nil {
				got = strings.Split(err.Error(), "\n")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// noise returns text that does not compress.
func noise(size int) []byte {
	out := make([]byte, size)
	for i, r := 0, rand.New(rand.NewPCG(1, 2)); i < len(out); i++ {
		out[i] = byte(r.Uint32())
	}
	return out
}

// TestTotalSize: two files of the maximal size that do not compress are too large
// together.
func TestTotalSize(t *testing.T) {
	t.Parallel()
	var files strings.Builder
	for i := range 2 {
		fmt.Fprintf(&files, "\n    - path: /etc/noise/%d\n      contents:\n        local: butane/noise", i)
	}
	changed := edited(t, "butane/config.bu", "  files:", "  files:"+files.String())
	changed["butane/noise"] = &fstest.MapFile{Data: noise(machineconfig.MaxFile)}
	got := rejection(t, changed, machineconfig.Request{Image: image, Pool: "master"})
	want := regexp.MustCompile(`^MachineConfigs: together (6|7)[0-9]{5} bytes of JSON, (4[0-9])\.[0-9]{2} % of the machine-config-operator's limit of 1572864 for a pool; at most 524288, 33\.33 %, are allowed: use a smaller configuration or CA bundle, or remove files from butane/\*\.bu$`)
	if !want.MatchString(got) {
		t.Error(got)
	}
}

// TestAdditionalFiles: an additional file of the user is rendered, and listed for the
// policy.
func TestAdditionalFiles(t *testing.T) {
	t.Parallel()
	changed := edited(t, "butane/config.bu", "  files:", "  files:\n    - path: /etc/mine\n      contents:\n        local: butane/mine")
	changed["butane/mine"] = &fstest.MapFile{Data: []byte("mine")}
	objects := must1(machineconfig.Render(changed, machineconfig.Request{Image: image, Pool: "master"}))(t)
	if diff := cmp.Diff([]string{"/etc/mine", "/etc/http01-proxyd/config.yaml"}, objects[1].Paths); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
