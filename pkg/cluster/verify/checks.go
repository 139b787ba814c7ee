// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"slices"
	"strings"
)

// Outcome is the result of a check.
type Outcome string

// The outcomes.
const (
	AsExpected    Outcome = "as expected"
	Different     Outcome = "different"
	Undetermined  Outcome = "not determined"
	NotApplicable Outcome = "not applicable"
)

// Check is a fact that no test outside a cluster can settle.
type Check struct {
	ID, Title string
	// Command is for a shell on a control-plane node, or begins with oc. NODE and NAME
	// are the node that holds the API VIP, and the name of the API. SUFFIX makes the name
	// of the pod unique.
	Command  string
	Expected string // a sentence
	Hint     string // a sentence about another output
	judge    func(n Node, output string) Outcome
}

// OnNodes reports whether the command runs on each node.
func (c Check) OnNodes() bool { return !strings.HasPrefix(c.Command, "oc ") }

// The IDs of the checks that run with oc.
const (
	PodRequest    = "B5"
	PolicyInForce = "B7"
)

// policyNames prints the keys of the policy in force.
const policyNames = "jsonpath={.status.nodeDisruptionPolicyStatus.clusterPolicies.files[*].path} {.status.nodeDisruptionPolicyStatus.clusterPolicies.units[*].name}"

// PolicyArguments are the arguments of oc that print the keys of the policy in force.
func PolicyArguments() []string {
	return []string{"machineconfiguration", "cluster", "-o", policyNames}
}

// Checks returns all checks in the order of their IDs, which never change.
func Checks() []Check {
	return []Check{
		{
			"B1", "label of the remover",
			"ls -Z /usr/local/lib/systemd/system/",
			"The type of each file is lib_t or systemd_unit_file_t. If the operating system image contains the binary, there is no remover.",
			"With var_t, systemd cannot read the unit that removes the service.",
			judgeLabel,
		},
		{
			"B2", "installer or remover is loaded",
			"systemctl cat http01-proxyd-install.service",
			"The first line is the path of the unit, below /etc. After the removal of the MachineConfigs and a boot it is below /usr/local/lib. If the operating system image contains the binary, there is no such unit.",
			"If the unit is not found after the removal, the service remains on the node. If the image contains the binary, remove what the installer has left.",
			judgeUnit,
		},
		{
			"B3", "SELinux domain and denials",
			"ps -eZ | grep '[h]ttp01-proxyd'; ausearch --input-logs -m avc -ts boot | grep -E 'http01|comm=.systemd.'",
			"Each process has the type unconfined_service_t, and there is no denial.",
			"A denial names the file or the operation that the policy forbids.",
			judgeDomain,
		},
		{
			"B4", "the kernel keeps the table",
			"uname -r; journalctl -b -u http01-proxyd -o cat | grep 'keeps no table'",
			"Only the release of the kernel is printed. This is determined only on a node that holds the API VIP.",
			"Without the flag persist, connections to the VIPs are refused between a crash and the next start.",
			judgePersistence,
		},
		{
			PodRequest, "a pod on the node with the VIP reaches the proxy",
			`oc run http01-verify-SUFFIX --attach --rm --quiet --restart=Never --image=IMAGE --overrides='{"apiVersion":"v1","spec":{"nodeName":"NODE","tolerations":[{"operator":"Exists"}]}}' --command -- curl -si --max-time 10 http://NAME/`,
			"The status is 400, and the body is: Only /.well-known/acme-challenge/* is allowed",
			"With another result, the self check of cert-manager fails from pods on this node. Accelerated networking can bypass netfilter.",
			judgeRequest,
		},
		{
			"B6", "first boot of a control-plane node",
			"journalctl -u http01-proxyd-install | grep -E '^-- Boot|is installed' | tail -n 20",
			"The last line contains: is installed. On a node that was added later, a line -- Boot is before it. It is not applicable if the operating system image contains the binary.",
			"Without the line, the installer has not completed. Its journal has the reason.",
			judgeInstalled,
		},
		{
			PolicyInForce, "the node disruption policy is in force",
			"oc get machineconfiguration cluster -o '" + policyNames + "'",
			"The names contain http01-proxyd.service and http01-proxyd-install.service. If the operating system image contains the binary, they contain /etc/http01-proxyd, and not http01-proxyd-install.service.",
			"Apply the policy again before any other change: without it, a change reboots the nodes. With entries of the installer, nodes without it are degraded.",
			judgePolicy,
		},
		{
			"B8", "no other program has the ports",
			"ss -ltnp 'sport = :8888 or sport = :9645'",
			"Each line has the users http01-proxyd.",
			"Another program has the port: set another one in the configuration.",
			judgePorts,
		},
	}
}

// byID returns the check with an ID.
func byID(id string) Check {
	all := Checks()
	return all[slices.IndexFunc(all, func(c Check) bool { return c.ID == id })]
}

// Pod is the pod that sends a request.
type Pod struct {
	Suffix  string // of its name
	Node    string
	Image   string
	APIName string // to which it sends the request
}

// Placed returns the command of a check with oc.
func Placed(id string, p Pod) string {
	return strings.NewReplacer("SUFFIX", p.Suffix, "NODE", p.Node, "IMAGE", p.Image, "NAME", p.APIName).Replace(byID(id).Command)
}

// lines returns the lines of an output that are not empty.
func lines(output string) []string {
	return slices.DeleteFunc(strings.Split(output, "\n"), func(line string) bool { return strings.TrimSpace(line) == "" })
}

// contextOf returns the type in an SELinux context, the first field of a line. It is
// empty without SELinux.
func contextOf(line string) string {
	parts := strings.Split(strings.Fields(line)[0], ":")
	if len(parts) < 3 {
		return ""
	}
	return parts[2]
}

const installerUnit = "http01-proxyd-install.service"

func judgeLabel(n Node, output string) Outcome {
	outcome := Undetermined
	if n.Layered {
		outcome = AsExpected // the folder may be absent
	}
	for _, line := range lines(output) {
		switch kind := contextOf(line); {
		case n.Layered && strings.HasSuffix(line, " "+installerUnit):
			return Different
		case kind == "":
		case kind != "lib_t" && kind != "systemd_unit_file_t":
			return Different
		default:
			outcome = AsExpected
		}
	}
	return outcome
}

func judgeUnit(n Node, output string) Outcome {
	const etc, local = "# /etc/systemd/system/", "# /usr/local/lib/systemd/system/"
	found := slices.ContainsFunc(lines(output), func(line string) bool { return line == etc+installerUnit || line == local+installerUnit })
	if found == n.Layered {
		return Different
	}
	return AsExpected
}

func judgeDomain(_ Node, output string) Outcome {
	outcome := Undetermined
	for _, line := range lines(output) {
		switch kind := contextOf(line); {
		case strings.Contains(line, "type=AVC"):
			return Different
		case strings.Contains(line, "http01-proxyd") && kind != "" && kind != "unconfined_service_t":
			return Different
		case kind == "unconfined_service_t":
			outcome = AsExpected
		}
	}
	return outcome
}

func judgePersistence(n Node, output string) Outcome {
	switch {
	case strings.Contains(output, "keeps no table"):
		return Different
	case !n.HoldsVIP || len(lines(output)) != 1:
		return Undetermined
	}
	return AsExpected
}

func judgeRequest(_ Node, output string) Outcome {
	status := regexpStatus.FindStringSubmatch(output)
	switch {
	case status == nil:
		return Undetermined
	case status[1] == "400" && strings.Contains(output, "Only /.well-known/acme-challenge/* is allowed"):
		return AsExpected
	}
	return Different
}

func judgeInstalled(n Node, output string) Outcome {
	all := lines(output)
	if n.Layered {
		return NotApplicable
	}
	if len(all) == 0 || !strings.Contains(all[len(all)-1], "is installed") {
		return Different
	}
	return AsExpected
}

func judgePolicy(n Node, output string) Outcome {
	names := strings.Fields(output)
	inForce := slices.Contains(names, "http01-proxyd.service") && slices.Contains(names, installerUnit)
	if n.Layered {
		inForce = slices.Contains(names, "/etc/http01-proxyd") && !slices.Contains(names, installerUnit)
	}
	if !inForce {
		return Different
	}
	return AsExpected
}

func judgePorts(_ Node, output string) Outcome {
	outcome := Undetermined
	for _, line := range lines(output) {
		switch {
		case !strings.HasPrefix(line, "LISTEN"):
		case !strings.Contains(line, `(("http01-proxyd"`):
			return Different
		default:
			outcome = AsExpected
		}
	}
	return outcome
}
