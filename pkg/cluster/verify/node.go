// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/condition"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// maxOutput limits the output of one command on a node.
const maxOutput = 256 << 10

var regexpStatus = regexp.MustCompile(`(?m)^HTTP/[0-9.]+ ([0-9]{3})`)

// The commands whose outputs describe a node.
const (
	systemKey     = "system"
	statusKey     = "status"
	programKey    = "program"
	systemCommand = `. /etc/os-release; echo "$PRETTY_NAME"`
	statusCommand = "http01-proxyd status -o json"
	// The unit of a host whose operating system image contains the binary runs it from
	// /usr/bin (butane/layered.bu).
	programCommand = "systemctl show --property=ExecStart http01-proxyd.service"
	layeredProgram = "path=/usr/bin/http01-proxyd "
)

// Script returns a shell script for a node. It runs the commands of all checks and
// prints their outputs as one JSON document, in base64.
func Script() string {
	var b strings.Builder
	fmt.Fprintf(&b, `run() { printf '%%s"%%s":"%%s"' "$comma" "$1" "$(sh -c "$2" 2>&1 </dev/null | head -c %d | base64 -w 0)"; comma=,; }; printf '{'; `, maxOutput)
	add := func(key, command string) {
		fmt.Fprintf(&b, "run %s '%s'; ", key, strings.ReplaceAll(command, "'", `'\''`))
	}
	add(systemKey, systemCommand)
	add(statusKey, statusCommand)
	add(programKey, programCommand)
	for _, c := range Checks() {
		if c.OnNodes() {
			add(c.ID, c.Command)
		}
	}
	b.WriteString(`printf '}\n'`)
	return b.String()
}

// Node is what the script has printed on a node.
type Node struct {
	Name, System, Version string
	State                 report.Reason // empty: the service has not answered
	HoldsVIP              bool
	Layered               bool              // the operating system image contains the binary
	outputs               map[string]string // by the ID of the check
	problem               string            // why there are no outputs
}

// ParseNode reads the document of the script. A node is not trusted: its texts are
// limited here, and made printable in the report.
func ParseNode(name string, document []byte) (Node, error) {
	var encoded map[string]string
	if err := json.Unmarshal(document, &encoded); err != nil {
		return Node{}, fmt.Errorf("cannot read the output of %s: %w: run the command again", name, err)
	}
	n := Node{Name: name, outputs: map[string]string{}}
	for key, text := range encoded {
		decoded, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(decoded) > maxOutput {
			return Node{}, errors.New("cannot read the output of " + name + ": not base64, or too long: run the command again")
		}
		n.outputs[key] = string(decoded)
	}
	n.System = strings.TrimSpace(n.outputs[systemKey])
	n.Layered = strings.Contains(n.outputs[programKey], layeredProgram)
	if h, err := condition.Parse(name, []byte(n.outputs[statusKey])); err == nil {
		n.Version, n.State = h.Version, h.Condition.Reason
		n.HoldsVIP = slices.ContainsFunc(h.VIPs, func(v report.VIP) bool { return v.State == report.VIPHeld })
	}
	return n, nil
}

// AbsentNode is a node that has printed nothing, with the reason.
func AbsentNode(name, problem string) Node { return Node{Name: name, problem: problem} }

// results returns the results of all checks on the node.
func (n Node) results() []Result {
	var all []Result
	for _, c := range Checks() {
		if !c.OnNodes() {
			continue
		}
		output, ran := n.outputs[c.ID]
		r := Result{Check: c, Where: n.Name, Command: c.Command, Output: output, Outcome: Undetermined}
		if !ran {
			r.Output = n.problem
		} else {
			r.Outcome = c.judge(n, output)
		}
		all = append(all, r)
	}
	return all
}

// verified returns the node for the document.
func (n Node) verified() report.VerifiedNode {
	return report.VerifiedNode{
		Name: n.Name, System: printable.Truncate(n.System, maxLine), Version: printable.Truncate(n.Version, maxLine),
		State: n.State, HoldsVIP: n.HoldsVIP, Layered: n.Layered, Problem: printable.Truncate(n.problem, maxLine),
	}
}
