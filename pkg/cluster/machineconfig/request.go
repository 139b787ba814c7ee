// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"time"
)

// DefaultPool is the pool of the hosts that may hold the API VIP.
const DefaultPool = "master"

// ExampleImage is the reference in the committed MachineConfigs. Its digest is
// invented. Files that are rendered for it are marked as examples.
const ExampleImage = "quay.io/http01-proxyd/http01-proxyd@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

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

// Problem is one reason why the input is refused, and its remediation.
type Problem struct {
	Where       string // a file with line and column, or the object of the problem
	Message     string
	Remediation string
}

// Error returns "where: message: remediation".
func (p Problem) Error() string {
	return fmt.Sprintf("%s: %s: %s", p.Where, p.Message, p.Remediation)
}

// validate checks the request. It returns the parsed checksums and the resolved site.
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
	return Problem{
		Where:       fmt.Sprintf("pool %q", pool),
		Message:     "not a valid name of a MachineConfigPool",
		Remediation: `give one that "oc get machineconfigpool" shows: at most 63 lower-case letters, digits and "-"`,
	}
}
