// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// checkPrerequisites says what this machine lacks for a lab, and the mend.
func checkPrerequisites() error {
	if os.Geteuid() != 0 {
		return errors.New("the lab makes network namespaces and needs root: run it with sudo")
	}
	var missing []string
	for _, program := range []string{"ip", "ss", "nft", "keepalived", "haproxy"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the lab needs %s: run test/install-packages lab, or put /usr/sbin into PATH",
			strings.Join(missing, ", "))
	}
	return nil
}
