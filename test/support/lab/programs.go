// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// checkPrerequisites returns an error with the remediation when this machine lacks a
// requirement of the lab.
func checkPrerequisites() error {
	if os.Geteuid() != 0 {
		return errors.New("the lab needs root for network namespaces: run it with sudo")
	}
	var missing []string
	for _, program := range []string{"ip", "ss", "nft", "keepalived", "haproxy"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("programs %s are missing: run test/install-packages lab, or add /usr/sbin to PATH",
			strings.Join(missing, ", "))
	}
	return nil
}
