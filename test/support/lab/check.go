// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// CheckReport is the output of `http01-proxyd check -o json`. Operators' scripts read this
// format, so it is declared here a second time to detect changes.
type CheckReport struct {
	Host       string        `json:"host"`
	Outcome    string        `json:"outcome"`
	Management string        `json:"management"`
	Incomplete []string      `json:"incomplete"`
	Checks     []CheckResult `json:"checks"`
	Trace      []CheckHop    `json:"trace"`
	Duration   float64       `json:"durationMs"`
}

// CheckHop is one step of a challenge.
type CheckHop struct {
	Step     string  `json:"step"`
	To       string  `json:"to"`
	Outcome  string  `json:"outcome"`
	Text     string  `json:"text"`
	Duration float64 `json:"durationMs"`
}

// CheckResult is the result of one check.
type CheckResult struct {
	Name       string         `json:"name"`
	Outcome    string         `json:"outcome"`
	Text       string         `json:"text"`
	NotChecked string         `json:"notChecked"`
	Findings   []CheckFinding `json:"findings"`
}

// CheckFinding is one fault.
type CheckFinding struct {
	ID          string   `json:"id"`
	Level       string   `json:"level"`
	Message     string   `json:"message"`
	Remediation string   `json:"remediation"`
	Commands    []string `json:"commands"`
}

// IDs returns the IDs of all findings in the order of the checks.
func (r CheckReport) IDs() []string {
	ids := []string{}
	for _, c := range r.Checks {
		for _, f := range c.Findings {
			ids = append(ids, f.ID)
		}
	}
	return ids
}

// Texts returns the messages of the findings with an ID, each with its remediation.
func (r CheckReport) Texts(id string) (texts []string) {
	for _, c := range r.Checks {
		for _, f := range c.Findings {
			if f.ID == id {
				texts = append(texts, f.Message+". "+f.Remediation)
			}
		}
	}
	return texts
}

// Commands returns the commands of the findings with an ID.
func (r CheckReport) Commands(id string) (commands []string) {
	for _, c := range r.Checks {
		for _, f := range c.Findings {
			if f.ID == id {
				commands = append(commands, f.Commands...)
			}
		}
	}
	return commands
}

// RunCommands runs the commands of a finding on the node, each in a shell of its own, as an administrator
// pastes them. It leaves out commands of oc, which run on a workstation. A query may fail, because the node
// lacks its program. All nodes share the processes of this machine, so pgrep finds none: use it where
// keepalived was killed on the node.
func (n *Node) RunCommands(ctx context.Context, commands []string) error {
	bin := filepath.Join(n.Dir, "commands")
	var problems []error
	for name, text := range map[string]string{"pgrep": "exit 1", "crictl": "exit 0", "systemctl": "exit 0"} {
		problems = append(problems, os.MkdirAll(bin, 0o700),
			os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700)) //nolint:gosec // a program
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("prepare the commands of a finding: %w", err)
	}
	ran := 0
	for _, command := range commands {
		if strings.HasPrefix(command, "oc ") {
			continue
		}
		if _, err := n.Run(ctx, "sh", "-c", `PATH="$0:$PATH" exec sh -c "$1"`, bin, command); err != nil {
			problems = append(problems, err)
			continue
		}
		ran++
	}
	if ran == 0 {
		return fmt.Errorf("none of %d commands succeeded: %w", len(commands), errors.Join(problems...))
	}
	return nil
}

// Check returns the result of a check by name, or the zero value.
func (r CheckReport) Check(name string) CheckResult {
	i := slices.IndexFunc(r.Checks, func(c CheckResult) bool { return c.Name == name })
	if i < 0 {
		return CheckResult{}
	}
	return r.Checks[i]
}

// HostFile returns the path of the file that replaces a file in the host's /etc. It does
// not exist until WriteHostFile. check uses it only if CheckFlags names it.
func (n *Node) HostFile(name string) string { return n.serviceFile("etc-" + name) }

// WriteHostFile writes the file of HostFile.
func (n *Node) WriteHostFile(name, text string) error {
	return writeFile(n.HostFile(name), []byte(text))
}

// CheckFlags returns the flags of the check command for the node's own service and files.
func (n *Node) CheckFlags() []string {
	return []string{
		"--config", n.serviceFile("config.yaml"),
		"--state-dir", n.serviceFile("state"),
		"--status-socket", n.StatusSocket(),
		"--manifests", n.Manifests(),
		"--disabled-manifests", n.DisabledManifests(),
		"--apiserver-url", n.APIServerURL(),
		"--proxy-env", n.ProxyEnv(),
		"--resolv-conf", n.HostFile("resolv.conf"),
		"--chrony-conf", n.HostFile("chrony.conf"),
		"--kubeconfig", n.HostFile("kubeconfig"),
	}
}

// Check runs the check command on the node and returns its report and its exit code.
func (n *Node) Check(ctx context.Context, binary string, flags ...string) (CheckReport, int, error) {
	text, code, err := n.CheckText(ctx, binary, append(flags, "-o", "json")...)
	if err != nil {
		return CheckReport{}, code, err
	}
	r, err := ParseCheck(text)
	return r, code, err
}

var placeholder = regexp.MustCompile(`\{[A-Za-z]+\}`)

// ParseCheck parses the output of the check command with -o json. Each finding needs an entry,
// and values for the placeholders of its texts.
func ParseCheck(text string) (r CheckReport, err error) {
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return r, fmt.Errorf("read the report of check: %w: %.300s", err, text)
	}
	for _, c := range r.Checks {
		for _, f := range c.Findings {
			if f.Remediation == "" || placeholder.MatchString(f.Message+f.Remediation) {
				return r, fmt.Errorf("the finding %s is incomplete: %s: %s", f.ID, f.Message, f.Remediation)
			}
		}
	}
	return r, nil
}

// CheckText runs the check command on the node and returns its output and its exit code.
func (n *Node) CheckText(ctx context.Context, binary string, flags ...string) (string, int, error) {
	out, err := n.Run(ctx, binary, slices.Concat([]string{"check"}, n.CheckFlags(), flags)...)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 2 {
		return out, exit.ExitCode(), nil
	}
	return out, 0, err
}
