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

// maxFile limits one file on the host. Larger files would fit, but a MachineConfig is
// stored, merged and read many times.
const maxFile = 256 << 10

// validateMachineConfig rejects content that the machine-config-operator refuses, that
// would make its daemon mark a node degraded, or that would reboot a host. Function
// names in comments are those of github.com/openshift/machine-config-operator. Butane
// has most of these rules too, but the result must not depend on its version.
func validateMachineConfig(source string, m machineConfig) (types.Config, error) {
	j := validator{source: source}
	for _, key := range slices.Sorted(maps.Keys(m.section("spec"))) {
		if key != "config" {
			// pkg/daemon/update.go, calculatePostConfigChangeNodeDisruptionAction
			j.addProblem("spec."+key, "a change of it reboots every host, regardless of the policy", "put it in a MachineConfig of its own")
		}
	}
	text, err := json.Marshal(m.section("spec")["config"])
	if err != nil {
		return types.Config{}, fmt.Errorf("cannot write the Ignition part of %s: %w", source, err)
	}
	c, remarks, err := ignition.ParseCompatibleVersion(text)
	if err != nil {
		j.addProblem("spec.config", fmt.Sprintf("not an Ignition 3.4 configuration (%v)", err), "set \"version: 4.17.0\" in the source, which all later releases accept")
		return c, j.joinedProblems()
	}
	for _, remark := range remarks.Entries { // ValidateIgnition
		j.addProblem("spec.config", remark.String(), sourceRemediation(source))
	}
	j.checkConfig(c)
	return c, j.joinedProblems()
}

type validator struct {
	source   string
	problems []error
}

func (v *validator) addProblem(what, message, remediation string) {
	v.problems = append(v.problems, problem(v.source, what+": "+message, remediation))
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

// checkSections holds the rules about whole sections
// (pkg/controller/common/reconcile.go, isConfigReconcilable and validatePasswdChanges):
// the daemon refuses a change of these sections on an existing host.
func (v *validator) checkSections(c types.Config) {
	const remediation = "remove it; only files and units can be changed on a running host"
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
			v.addProblem(section.name, "the machine-config-daemon cannot change it on a running host, and marks the node degraded", remediation)
		}
	}
}

// checkUsers accepts only what the daemon can change: keys and password of one user.
func (v *validator) checkUsers(users []types.PasswdUser) {
	for _, u := range users {
		name := u.Name
		u.Name, u.PasswordHash, u.SSHAuthorizedKeys = "", nil, nil
		if name != "core" || !isUnset(reflect.ValueOf(u)) { // verifyUserFields
			v.addProblem(fmt.Sprintf("passwd.users %q", name), "the machine-config-daemon changes only the keys and the password of core", "remove it")
		}
	}
}

// isUnset reports whether no field is set, at any depth.
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

// checkOwner requires root. If a host does not know the name, the update fails there
// (pkg/daemon/file_writers.go, getFileOwnership). Another owner could change the file,
// which the daemon reports as configuration drift.
func (v *validator) checkOwner(file, kind string, id *int, name *string) {
	if (id != nil && *id != 0) || (name != nil && *name != "" && *name != "root") {
		v.addProblem(file, "belongs to a "+kind+" other than root", "remove "+kind+", or set it to root")
	}
}

// checkContents accepts what the daemon can write: inline data, gzip or no compression
// (pkg/controller/common/helpers.go, DecodeIgnitionFileContents).
func (v *validator) checkContents(f types.File) {
	limit := int64(maxFile)
	if f.Path == bundlePath {
		limit = trust.MaxBundle
	}
	if _, message, remediation := decodeContents(f.Contents.Source, f.Contents.Compression, limit); message != "" {
		v.addProblem(f.Path, message, remediation)
	}
}

// FileContents returns the contents of a file in a MachineConfig as the daemon writes
// them. ok is false for contents that it cannot write, or of more than limit bytes.
func FileContents(source, compression *string, limit int64) (text []byte, ok bool) {
	text, message, _ := decodeContents(source, compression, limit)
	return text, message == ""
}

// decodeContents returns the contents of a file, or a problem with its remediation.
func decodeContents(source, compression *string, limit int64) (text []byte, message, remediation string) {
	const (
		inline    = "use inline or local contents"
		automatic = "remove compression: Butane selects it automatically"
	)
	if source == nil || *source == "" {
		return nil, "", "" // an empty file
	}
	if !strings.HasPrefix(*source, "data:") {
		return nil, "its contents are remote, and the machine-config-daemon does not download files", inline
	}
	url, err := dataurl.DecodeString(*source)
	if err != nil {
		return nil, fmt.Sprintf("not a data URL (%v)", err), inline
	}
	var reader io.Reader = bytes.NewReader(url.Data)
	switch {
	case compression == nil || *compression == "":
	case *compression == "gzip":
		if reader, err = gzip.NewReader(reader); err != nil {
			return nil, fmt.Sprintf("not gzip (%v)", err), automatic
		}
	default:
		return nil, fmt.Sprintf("compression %q", *compression), "remove it: Butane selects gzip automatically"
	}
	text, err = io.ReadAll(io.LimitReader(reader, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Sprintf("its contents cannot be decompressed (%v)", err), automatic
	case int64(len(text)) > limit:
		return nil, fmt.Sprintf("longer than %d bytes", limit), "use a smaller file"
	}
	return text, "", ""
}

// hostWrittenPaths lists the files, and the directories with all their files, that
// systemd/http01-proxyd-install and the service write, rename and remove.
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

// restrictedPath is a directory or file to which nothing can be delivered, with reason
// and remediation.
type restrictedPath struct{ path, reason, remediation string }

// checkPath rejects paths that are read-only, do not survive a reboot, or belong to
// another program. The first entry that matches is reported.
func (v *validator) checkPath(file string) {
	const (
		daemon    = "it belongs to the machine-config-daemon"
		elsewhere = "use /etc, /usr/local or /var"
		leave     = "leave it out"
	)
	if path.Clean(file) != file {
		v.addProblem(file, "not in its shortest form, so policies by path do not match it", "write "+path.Clean(file))
	}
	for _, ours := range hostWrittenPaths() {
		if file == ours || strings.HasPrefix(file, ours+"/") {
			v.addProblem(file, "it is written on the host, and the machine-config-daemon marks a node degraded if its files differ from the MachineConfigs", "leave it to the installer and the service")
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
		{"/var/lib/private", "it belongs to systemd", leave},
		{"/usr", "read-only on image-based hosts", elsewhere},
		{"/etc/systemd/system", "units must be delivered as units", "list it under systemd.units"},
		{"/boot", "read-only, or it belongs to the boot loader", elsewhere},
		{"/dev", "it does not survive a reboot", elsewhere},
		{"/proc", "it belongs to the kernel", elsewhere},
		{"/run", "it does not survive a reboot, and the node would be marked degraded", elsewhere},
		{"/sys", "it belongs to the kernel", elsewhere},
		{"/tmp", "it does not survive a reboot, and the node would be marked degraded", elsewhere},
	} {
		if file == r.path || strings.HasPrefix(file, r.path+"/") {
			v.addProblem(file, r.reason, r.remediation)
			return
		}
	}
}

// checkUnit holds the rules about units (pkg/daemon/file_writers.go, writeUnit and
// writeDropins; pkg/daemon/update.go for enabling).
func (v *validator) checkUnit(u types.Unit) {
	has := u.Contents != nil && *u.Contents != ""
	masked := u.Mask != nil && *u.Mask
	if masked && (has || (u.Enabled != nil && *u.Enabled)) {
		v.addProblem(u.Name, "masked, but also enabled or with contents", "mask it or deliver it")
	}
	if strings.HasPrefix(u.Name, "machine-config-daemon") || slices.Contains([]string{"crio.service", "kubelet.service"}, u.Name) {
		v.addProblem(u.Name, "it belongs to OpenShift", "leave it out")
	}
	for _, d := range u.Dropins {
		if d.Contents == nil || *d.Contents == "" {
			v.addProblem(u.Name+".d/"+d.Name, "an empty drop-in is not written", "leave it out")
		}
	}
}
