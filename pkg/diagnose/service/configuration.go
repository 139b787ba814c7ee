// SPDX-License-Identifier: Apache-2.0

package service

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// machineConfigDaemon is where the machine-config-daemon keeps its state. A node with it is degraded when
// a file of a MachineConfig changes.
const machineConfigDaemon = "/etc/machine-config-daemon"

// maxProblems bounds the findings about a file that is not a configuration.
const maxProblems = 10

// Configuration is the configuration file of the service.
type Configuration struct {
	Path          string
	Err           error // why it is invalid
	Enabled       bool
	InternalHosts []string             // hosts that must not get a public certificate
	Accepted      report.AcceptedHosts // unknown on a host that cannot hold VIPs: no names
	Privileged    bool
}

// Check evaluates the file.
func (c Configuration) Check() result.Result {
	var problems config.Problems
	switch {
	case errors.As(c.Err, &problems):
		return result.Of(configFindings(problems, c.Path)...)
	case errors.Is(c.Err, fs.ErrPermission) && !c.Privileged:
		return result.Skip("%v", c.Err)
	case c.Err != nil:
		values := findings.Values{"error": c.Err.Error(), "path": c.Path}
		if errors.Is(c.Err, fs.ErrPermission) {
			values["file"] = c.Path
		}
		return result.Found(findings.ConfigUnreadable, values)
	case !c.Enabled:
		values := findings.Values{"path": c.Path}
		if _, err := os.Stat(machineConfigDaemon); errors.Is(err, fs.ErrNotExist) {
			values["own"] = c.Path
		}
		return result.Found(findings.Disabled, values)
	case len(c.InternalHosts) > 0:
		values := findings.Values{"path": c.Path, "name": strings.Join(c.InternalHosts, " and ")}
		return result.Found(findings.HostsInternalName, values)
	}
	text := c.Path + " is valid"
	if _, err := os.Lstat(c.Path); errors.Is(err, fs.ErrNotExist) {
		text = c.Path + " does not exist, so the defaults are in use"
	}
	if c.Accepted.Source != "" {
		text += fmt.Sprintf("; accepted host names: %v", c.Accepted)
	}
	if c.Accepted.Source == report.HostsUnknown {
		return result.Nothing("%s", text) // no fault, but no success either
	}
	return result.Pass("%s", text)
}

// configFindings returns a finding for each problem.
func configFindings(problems config.Problems, path string) []findings.Finding {
	var all []findings.Finding
	for i, p := range problems {
		where := p.Position() + ": " + p.Message
		if i == maxProblems {
			where = fmt.Sprintf("%s, and %d more", where, len(problems)-i-1)
		}
		values := findings.Values{"problem": where, "fix": sentence(p.Remediation), "path": path}
		all = append(all, findings.New(findings.ConfigInvalid, values))
		if i == maxProblems {
			break
		}
	}
	return all
}

// sentence is a text with a capital first letter and a full stop.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + strings.TrimSuffix(text[size:], ".") + "."
}
