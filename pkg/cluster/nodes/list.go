// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
)

const controlPlaneLabel = "node-role.kubernetes.io/control-plane"

// Node is a node of the cluster.
type Node struct {
	Name   string
	Absent string // why no command can run on it; empty if it can
}

// Selection selects nodes by name or by label. The zero value selects the control-plane
// nodes.
type Selection struct {
	Names    []string
	Selector string
}

// maxNodes is the limit of a selection.
const maxNodes = 1000

// List returns the selected nodes by name.
func (o OC) List(ctx context.Context, timeout time.Duration, s Selection) ([]Node, error) {
	selected := s.Names
	if len(s.Names) == 0 {
		selected = []string{"--selector=" + cmp.Or(s.Selector, controlPlaneLabel)}
	}
	out, err := o.Get(ctx, timeout, append([]string{"nodes", "--output=json"}, selected...)...)
	if err != nil {
		return nil, fmt.Errorf("cannot list the nodes: %w", err)
	}
	nodes, err := parseNodes(out)
	if err != nil || len(nodes) > 0 {
		return nodes, err
	}
	return nil, errors.New(`no node matches the selection: "oc get nodes --show-labels" prints the labels for --selector`)
}

// ErrUnknownKind means that the cluster has no such kind of objects.
var ErrUnknownKind = errors.New(`"oc api-resources" lists the kinds of this cluster`)

// Get returns what "oc get" prints with these arguments. The error does not name the act.
func (o OC) Get(ctx context.Context, timeout time.Duration, args ...string) ([]byte, error) {
	c := o.run(ctx, timeout, maxList, "get", args...)
	switch {
	case c.tooLong:
		return nil, fmt.Errorf("the output is longer than %d bytes", c.limit)
	case c.timeout > 0:
		return nil, fmt.Errorf("no answer within %v: %s", c.timeout, unreachable)
	case c.err != nil && len(c.messages) > 0:
		messages := lastLines(c.messages)
		if strings.Contains(messages, "the server doesn't have a resource type") {
			return nil, fmt.Errorf("%s: %w", messages, ErrUnknownKind)
		}
		return nil, fmt.Errorf("%s: %s", messages, remediation(messages))
	}
	return c.out, c.err
}

const unreachable = `check the connection with "oc get nodes"; if the API does not respond, run http01-proxyd on the ` +
	"control-plane nodes, for example over SSH"

// access returns what to do if a message of oc says that the API refuses the user; empty for any other
// message.
func access(message string) string {
	switch {
	case strings.Contains(message, "Unauthorized"), strings.Contains(message, "must be logged in"):
		return `log in again with "oc login"`
	case strings.Contains(strings.ToLower(message), "forbidden"):
		return "log in as a user who may debug nodes, such as a cluster administrator"
	}
	return ""
}

// remediation returns what to do about a message of oc.
func remediation(message string) string {
	const kubeconfig = `name the right file with --kubeconfig or in KUBECONFIG, or log in with "oc login"`
	for _, known := range []struct{ text, remediation string }{
		{"NotFound", `"oc get nodes" lists the nodes`},
		{"context was not found", `"oc config get-contexts" lists the contexts`},
		{`context "`, `"oc config get-contexts" lists the contexts`},
		{"unable to parse requirement", "use labels in --selector, such as node-role.kubernetes.io/master="},
		{"no such file or directory", kubeconfig},
		{"permission denied", kubeconfig},
		{"configuration info", kubeconfig},
		{"no configuration has been provided", kubeconfig},
		{"certificate has expired", "run http01-proxyd check on the control-plane nodes, for example over SSH"},
	} {
		if strings.Contains(message, known.text) {
			return known.remediation
		}
	}
	return cmp.Or(access(message), unreachable)
}

// nameForm is the grammar of a node's name, a DNS subdomain.
var nameForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// ValidName reports whether name is a valid name of a node.
func ValidName(name string) bool { return nameForm.MatchString(name) }

type nodeObject struct {
	Metadata struct{ Name string }
	Status   struct {
		Conditions []struct {
			Type, Status, Message string
			LastTransitionTime    time.Time
		}
	}
}

// parseNodes reads the output of oc get nodes: a List, or one Node.
func parseNodes(text []byte) ([]Node, error) {
	var list struct {
		nodeObject

		Kind  string
		Items []nodeObject
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("cannot list the nodes: oc printed no list: %w", err)
	}
	if list.Kind == "Node" {
		list.Items = []nodeObject{list.nodeObject}
	}
	if len(list.Items) > maxNodes {
		return nil, fmt.Errorf("%d nodes are selected: select at most %d with --nodes or --selector",
			len(list.Items), maxNodes)
	}
	nodes := make([]Node, len(list.Items))
	for i, item := range list.Items {
		if !ValidName(item.Metadata.Name) {
			return nil, fmt.Errorf("cannot list the nodes: oc printed a node with the name %.100q", item.Metadata.Name)
		}
		nodes[i] = Node{Name: item.Metadata.Name, Absent: item.absence()}
	}
	slices.SortFunc(nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes, nil
}

// absence returns why no pod can start on a node: its kubelet does not respond. A node
// that is not ready for another reason may still start a pod in the host's network.
func (n nodeObject) absence() string {
	for _, c := range n.Status.Conditions {
		if c.Type == "Ready" && c.Status == "Unknown" {
			since := c.LastTransitionTime.UTC().Format(time.RFC3339)
			return fmt.Sprintf("the kubelet does not respond since %s: %s", since, printable.Truncate(c.Message, maxLine))
		}
	}
	return ""
}

// maxLine is the limit of a text of oc or a host in a message.
const maxLine = 512

// lastLines returns the end of an output as one line, without the notes of oc debug.
func lastLines(text []byte) string {
	const lines = 3
	text = text[max(0, len(text)-maxMessages):]
	var kept []string
	for line := range strings.SplitSeq(string(text), "\n") {
		line = strings.TrimSpace(printable.Line(line))
		if line != "" && !debugNotes.MatchString(line) {
			kept = append(kept, line)
		}
	}
	return printable.Truncate(strings.Join(kept[max(0, len(kept)-lines):], " / "), maxLine)
}

// debugNotes matches the notes of oc debug on standard error (openshift/oc,
// pkg/cli/debug/debug.go).
var debugNotes = regexp.MustCompile(
	`^(Starting pod/|To use host binaries, run |Pod IP: |Removing debug pod|Temporary namespace |Waiting for container )`)
