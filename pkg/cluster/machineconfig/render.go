// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Render returns the two MachineConfigs of a pool, service and configuration. sources
// contains the Butane files (butane/*.bu) and the files below butane/ and systemd/ that
// they name. The same request and sources give the same bytes, except that expired CAs are
// left out. For the problems that the error contains, see the package.
func Render(sources fs.FS, r Request) ([]Object, error) {
	sums, site, err := r.validate(sources)
	if err != nil {
		return nil, err
	}
	service, generated := layeredSource, site.files()
	if !r.Layered {
		service, generated[imageDropin] = serviceSource, imageDropinText(r.Image, sums)
	}
	var objects []Object
	err = withStagedFiles(sources, generated, func(dir string) error {
		var problems []error
		for _, source := range []string{service, configSource} {
			object, err := renderOne(sources, dir, source, r, site)
			objects, problems = append(objects, object), append(problems, err)
		}
		return errors.Join(problems...)
	})
	if err == nil {
		err = checkTotalSize(objects)
	}
	if err != nil {
		return nil, err
	}
	return objects, nil
}

func renderOne(sources fs.FS, dir, source string, r Request, site resolvedSite) (Object, error) {
	text, err := translateSource(sources, dir, source, site.bundle != nil)
	if err != nil {
		return Object{}, err
	}
	m, err := parseMachineConfig(text, r.Pool)
	if err != nil {
		return Object{}, err
	}
	files, err := m.Spec.Config.expand()
	if err != nil {
		return Object{}, err
	}
	body, size, err := m.encode()
	if err != nil {
		return Object{}, err
	}
	o := Object{File: m.Metadata.Name + ".yaml", Size: size, Files: files}
	description := "Image: " + r.Image
	switch source {
	case configSource:
		from := site.sources
		if len(from) == 0 || site.configuration.Name != configFile { // the default one adds nothing to the objects
			from = append([]string{path.Base(site.configuration.Name)}, from...)
		}
		description, o.Notes = "Configuration: "+strings.Join(from, ", "), site.notes
	case layeredSource:
		description = "Image: the operating system image, with the binary in /usr/bin"
	}
	if o.Size > annotationLimit {
		o.Notes = append(o.Notes,
			o.File+" is too large for the annotation of client-side oc apply: use oc apply --server-side")
	}
	o.Text = append(fileHeader(o, body, source, description, r.Image == ExampleImage), body...)
	return o, nil
}

// annotationLimit is the maximal size of all annotations of an object
// (k8s.io/apimachinery, TotalAnnotationSizeLimitB). Client-side oc apply stores a copy
// of the object in an annotation.
const annotationLimit = 256 << 10

func checkTotalSize(objects []Object) error {
	total := 0
	for _, o := range objects {
		total += o.Size
	}
	if total <= TotalLimit {
		return nil
	}
	message := fmt.Sprintf("together %d bytes of JSON, %s of the machine-config-operator's limit of %d for a pool; "+
		"at most %d, %s, are allowed", total, LimitShare(total), OperatorLimit, TotalLimit, LimitShare(TotalLimit))
	return problem("MachineConfigs", message, "use a smaller configuration or CA bundle, or remove files from butane/*.bu")
}
