// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

// DefaultPool is the pool of the hosts that may hold the API VIP.
const DefaultPool = "master"

// ExampleImage is the reference in the committed MachineConfigs. Its digest is
// invented. Files that are rendered for it are marked as examples.
const ExampleImage = "quay.io/http01-proxyd/http01-proxyd@sha256:" +
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// Input is the text of a file that the administrator has given.
type Input struct {
	Name string // for messages
	Text []byte
}

// Request selects what is rendered.
type Request struct {
	// Image is the container image with the binary: registry/name@sha256:digest. It is
	// empty with Layered.
	Image string
	// AllowTag also accepts a reference by tag.
	AllowTag bool
	// Pool is the MachineConfigPool, and the role in its selector.
	Pool string
	Site
	// Sums contains checksums of the binaries as sha256sum prints them, or is nil.
	Sums *Input
	// Layered omits the installer: the operating system image contains the binary.
	Layered bool
}

// problem returns a problem of an input, or of an object, as a whole.
func problem(where, message, remediation string) error {
	return config.Problem{Where: where, Message: message, Remediation: remediation}
}

// problemAt returns a problem at a node of a file.
func problemAt(file string, n *yaml.Node, message, remediation string) error {
	return config.Problem{
		Where: file, Line: max(n.Line, 1), Column: max(n.Column, 1), Message: message, Remediation: remediation,
	}
}

func (r Request) validate(sources fs.FS) (checksums, resolvedSite, error) {
	var problems []error
	if !r.Layered {
		problems = append(problems, checkImage(r.Image, r.AllowTag))
	}
	problems = append(problems, checkPool(r.Pool))
	site, err := r.resolve(sources, time.Now())
	problems = append(problems, err)
	var sums checksums
	if r.Sums != nil {
		sums, err = parseSums(*r.Sums)
		problems = append(problems, err)
	}
	return sums, site, errors.Join(problems...)
}

// checkPool requires a name that is valid both as an object name and as a label value
// (RFC 1123 label).
func checkPool(pool string) error {
	if len(pool) <= 63 && regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`).MatchString(pool) {
		return nil
	}
	return problem(fmt.Sprintf("pool %q", pool), "not a valid name of a MachineConfigPool",
		`give one that "oc get machineconfigpool" shows: at most 63 lower-case letters, digits and "-"`)
}
