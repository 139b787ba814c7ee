// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	ignition "github.com/coreos/ignition/v2/config/v3_4"
	"github.com/coreos/ignition/v2/config/v3_4/types"
	"github.com/vincent-petithory/dataurl"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
)

// maxFile bounds one file on the host. Larger ones fit, but a MachineConfig is
// kept, merged and read again many times.
const maxFile = 256 << 10

// validateMachineConfig refuses what the machine-config-operator refuses, what would make its
// daemon call a node degraded, and what would reboot a host. Names of its
// functions stand for github.com/openshift/machine-config-operator. Butane
// has most of these rules too; the verdict must not depend on its version.
func validateMachineConfig(source string, m machineConfig) (types.Config, error) {
	j := validator{source: source}
	for _, key := range slices.Sorted(maps.Keys(m.section("spec"))) {
		if key != "config" {
			// pkg/daemon/update.go, calculatePostConfigChangeNodeDisruptionAction
			j.addProblem("spec."+key, "a change of it reboots every host, whatever the policy says", "keep it in a MachineConfig of its own")
		}
	}
	text, err := json.Marshal(m.section("spec")["config"])
	if err != nil {
		return types.Config{}, fmt.Errorf("write the Ignition part of %s: %w", source, err)
	}
	c, remarks, err := ignition.ParseCompatibleVersion(text)
	if err != nil {
		j.addProblem("spec.config", fmt.Sprintf("not an Ignition 3.4 configuration (%v)", err), "let the source say \"version: 4.17.0\", which every release since takes")
		return c, j.joinedProblems()
	}
	for _, remark := range remarks.Entries { // ValidateIgnition
		j.addProblem("spec.config", remark.String(), sourceRemediation(source))
	}
	j.checkConfig(c)
	return c, j.joinedProblems()
}

// validator collects the reasons against one object.
type validator struct {
	source   string
	problems []error
}

func (v *validator) addProblem(what, message, mend string) {
	v.problems = append(v.problems, Problem{v.source, what + ": " + message, mend})
}

func (v *validator) joinedProblems() error { return errors.Join(v.problems...) }

func (v *validator) checkConfig(c types.Config) {
	v.checkSections(c)
	v.checkUsers(c.Passwd.Users)
	for _, f := range c.Storage.Files {
		v.checkFile(f)
	}
	for _, u := range c.Systemd.Units {
		v.checkUnit(u)
	}
}

// checkSections holds the rules about whole sections (pkg/controller/common/
// reconcile.go, isConfigReconcilable and validatePasswdChanges): a change of
// any of them is refused on a host that is already there.
func (v *validator) checkSections(c types.Config) {
	const mend = "take it out; files and units are what a running host takes"
	ignitionSection := c.Ignition
	ignitionSection.Version = ""
	for _, section := range []struct {
		name  string
		value any
	}{
		{"ignition", ignitionSection},
		{"kernelArguments", c.KernelArguments},
		{"passwd.groups", c.Passwd.Groups},
		{"storage.directories", c.Storage.Directories},
		{"storage.disks", c.Storage.Disks},
		{"storage.filesystems", c.Storage.Filesystems},
		{"storage.links", c.Storage.Links},
		{"storage.luks", c.Storage.Luks},
		{"storage.raid", c.Storage.Raid},
	} {
		if !isUnset(reflect.ValueOf(section.value)) {
			v.addProblem(section.name, "the machine-config-daemon applies no change of it to a running host, and calls the node degraded", mend)
		}
	}
}

// checkUsers wants what the daemon can change: keys and password of one user.
func (v *validator) checkUsers(users []types.PasswdUser) {
	for _, u := range users {
		name := u.Name
		u.Name, u.PasswordHash, u.SSHAuthorizedKeys = "", nil, nil
		if name != "core" || !isUnset(reflect.ValueOf(u)) { // verifyUserFields
			v.addProblem(fmt.Sprintf("passwd.users %q", name), "the machine-config-daemon changes the keys and the password of core and nothing else", "take it out")
		}
	}
}

// isUnset holds for what says nothing: no field set, at any depth.
func isUnset(value reflect.Value) bool {
	switch value.Kind() {
	case reflect.Struct:
		for i := range value.NumField() {
			if !isUnset(value.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice, reflect.Map:
		return value.Len() == 0
	default:
		return value.IsZero()
	}
}

func (v *validator) checkFile(f types.File) {
	v.checkPath(f.Path)
	if f.Mode != nil && (*f.Mode < 0 || *f.Mode > 0o777) { // validateIgn3FileModes
		v.addProblem(f.Path, fmt.Sprintf("mode %#o", *f.Mode), "give one up to 0777, without set-user-ID, set-group-ID and sticky bit")
	}
	if len(f.Append) > 0 { // pkg/daemon/file_writers.go, writeFiles
		v.addProblem(f.Path, "appends to a file", "write the whole file")
	}
	v.checkOwner(f.Path, "user", f.User.ID, f.User.Name)
	v.checkOwner(f.Path, "group", f.Group.ID, f.Group.Name)
	v.checkContents(f)
}

// checkOwner wants root: a name that is missing on one host fails the update there
// (pkg/daemon/file_writers.go, getFileOwnership), and what another user owns
// that user can change, which the daemon takes for a drifted host.
func (v *validator) checkOwner(file, kind string, id *int, name *string) {
	if (id != nil && *id != 0) || (name != nil && *name != "" && *name != "root") {
		v.addProblem(file, "belongs to a "+kind+" other than root", "leave "+kind+" out, or give root")
	}
}

// listContents wants what the daemon can write: inline, gzip or nothing around it
// (pkg/controller/common/helpers.go, DecodeIgnitionFileContents).
func (v *validator) checkContents(f types.File) {
	const inline = "use inline or local contents"
	if f.Contents.Source == nil || *f.Contents.Source == "" {
		return // an empty file
	}
	if !strings.HasPrefix(*f.Contents.Source, "data:") {
		v.addProblem(f.Path, "its contents come from elsewhere, and the machine-config-daemon fetches nothing", inline)
		return
	}
	url, err := dataurl.DecodeString(*f.Contents.Source)
	if err != nil {
		v.addProblem(f.Path, fmt.Sprintf("not a data URL (%v)", err), inline)
		return
	}
	var reader io.Reader = bytes.NewReader(url.Data)
	switch compression := f.Contents.Compression; {
	case compression == nil || *compression == "":
	case *compression == "gzip":
		if reader, err = gzip.NewReader(reader); err != nil {
			v.addProblem(f.Path, fmt.Sprintf("not gzip (%v)", err), "leave compression out: it is chosen by itself")
			return
		}
	default:
		v.addProblem(f.Path, fmt.Sprintf("compression %q", *compression), "leave it out: gzip is chosen by itself where it helps")
		return
	}
	limit := int64(maxFile)
	if f.Path == bundlePath {
		limit = trust.MaxBundle
	}
	size, err := io.Copy(io.Discard, io.LimitReader(reader, limit+1))
	switch {
	case err != nil:
		v.addProblem(f.Path, fmt.Sprintf("its contents cannot be unpacked (%v)", err), "leave compression out: it is chosen by itself")
	case size > limit:
		v.addProblem(f.Path, fmt.Sprintf("longer than %d bytes", limit), "give a smaller one")
	}
}

// hostWrittenPaths names the files, and the directories with all that is in them,
// that systemd/http01-proxyd-install and the service write, rename and remove.
func hostWrittenPaths() []string {
	return []string{
		"/usr/local/bin/http01-proxyd",
		"/usr/local/bin/http01-proxyd.previous",
		"/usr/local/bin/http01-proxyd.previous.next",
		"/usr/local/bin/.http01-proxyd.next",
		"/usr/local/lib/systemd/system/http01-proxyd-install.service",
		"/usr/local/lib/systemd/system/.http01-proxyd-install.service.next",
		"/run/systemd/system/http01-proxyd-install.service",
		"/run/http01-proxyd",
		"/run/http01-proxyd-install",
		"/var/lib/http01-proxyd",
	}
}

// restrictedPath is a directory, or a file, and why nothing in it can be delivered.
type restrictedPath struct{ path, reason, remediation string }

// checkPath refuses places that cannot be written, do not last, or are somebody
// else's. The first root that holds the path speaks.
func (v *validator) checkPath(file string) {
	const (
		daemon    = "it is the machine-config-daemon's own"
		elsewhere = "use /etc, /usr/local or /var"
		leave     = "leave it out"
	)
	if path.Clean(file) != file {
		v.addProblem(file, "not in its shortest form, so that policies by path miss it", "write "+path.Clean(file))
	}
	for _, ours := range hostWrittenPaths() {
		if file == ours || strings.HasPrefix(file, ours+"/") {
			v.addProblem(file, "it is written on the host, and the machine-config-daemon calls a node degraded whose files differ from its MachineConfigs", "leave it to the installer and the service")
			return
		}
	}
	if path.Clean(file) == "/usr/local" || strings.HasPrefix(file, "/usr/local/") {
		return
	}
	for _, r := range []restrictedPath{
		{"/etc/machine-config-daemon", daemon, leave},
		{"/etc/mco", daemon, leave},
		{"/run/machine-config-daemon-force", "the machine-config-operator refuses it", leave}, // isConfigReconcilable
		{"/var/lib/private", "it is systemd's", leave},
		{"/usr", "read-only on hosts whose system is an image", elsewhere},
		{"/etc/systemd/system", "units are delivered as units", "list it under systemd.units"},
		{"/boot", "read-only or the boot loader's", elsewhere},
		{"/dev", "it does not outlast a reboot", elsewhere},
		{"/proc", "it is the kernel's", elsewhere},
		{"/run", "it does not outlast a reboot, and a node whose files are missing is called degraded", elsewhere},
		{"/sys", "it is the kernel's", elsewhere},
		{"/tmp", "it does not outlast a reboot, and a node whose files are missing is called degraded", elsewhere},
	} {
		if file == r.path || strings.HasPrefix(file, r.path+"/") {
			v.addProblem(file, r.reason, r.remediation)
			return
		}
	}
}

// checkUnit holds what the daemon makes of units (pkg/daemon/file_writers.go,
// writeUnit and writeDropins; pkg/daemon/update.go for enabling).
func (v *validator) checkUnit(u types.Unit) {
	has := u.Contents != nil && *u.Contents != ""
	masked := u.Mask != nil && *u.Mask
	if masked && (has || (u.Enabled != nil && *u.Enabled)) {
		v.addProblem(u.Name, "masked, and something else as well", "mask it or deliver it")
	}
	if strings.HasPrefix(u.Name, "machine-config-daemon") || slices.Contains([]string{"crio.service", "kubelet.service"}, u.Name) {
		v.addProblem(u.Name, "it is OpenShift's own", "leave it out")
	}
	for _, d := range u.Dropins {
		if d.Contents == nil || *d.Contents == "" {
			v.addProblem(u.Name+".d/"+d.Name, "an empty drop-in is not written", "leave it out")
		}
	}
}
