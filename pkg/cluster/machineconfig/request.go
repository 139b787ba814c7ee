// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"time"
)

// DefaultPool is the pool that holds the API VIP.
const DefaultPool = "master"

// ExampleImage is the reference that the committed MachineConfigs carry; its
// digest is made up. What is rendered for it says that it is an example.
const ExampleImage = "quay.io/http01-proxyd/http01-proxyd@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// Input is the text of a file that an admin has given.
type Input struct {
	Name string // in messages
	Text []byte
}

// Request is what to render.
type Request struct {
	// Image holds the binary for hosts without one in their operating system:
	// registry/name@sha256:digest. It stays empty with Layered.
	Image string
	// AllowTag takes a reference by tag too.
	AllowTag bool
	// Pool is the MachineConfigPool, which is also the role in its selector.
	Pool string
	Site
	// Sums holds checksums of the binaries as sha256sum prints them, or is nil.
	Sums *Input
	// Layered leaves the installer out: the operating system's image holds the
	// binary.
	Layered bool
}

// Problem is one thing that stands in the way, and what mends it.
type Problem struct {
	Where       string // a file with line and column, or what the problem is about
	Message     string
	Remediation string
}

// Error gives "where: message: mend".
func (p Problem) Error() string {
	return fmt.Sprintf("%s: %s: %s", p.Where, p.Message, p.Remediation)
}

// validate judges all that the admin has given. It returns what was read out of
// the checksums, and what goes onto the hosts.
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

// checkPool holds a pool's name to what both an object's name and a label's
// value take (RFC 1123 label).
func checkPool(pool string) error {
	if len(pool) <= 63 && regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`).MatchString(pool) {
		return nil
	}
	return Problem{
		Where:       fmt.Sprintf("pool %q", pool),
		Message:     "not a name that a MachineConfigPool can have",
		Remediation: `give one that "oc get machineconfigpool" shows: at most 63 lower-case letters, digits and "-"`,
	}
}
