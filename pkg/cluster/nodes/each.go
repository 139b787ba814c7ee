// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/http01-proxyd/http01-proxyd/internal/jsonlimit"
	"github.com/http01-proxyd/http01-proxyd/internal/printable"
)

// maxParallel is the number of debug pods at a time.
const maxParallel = 10

// documentLimit bounds the document of a node, which is not trusted: a value of 3 bytes takes
// up to some KiB of memory when it is shown. The largest real documents contain about 6,000
// values, in 300 KiB.
type documentLimit struct{ bytes, values int }

func limitOf(command []string) documentLimit {
	if slices.Contains(command, "trace") { // of some 240 packets with ten steps each
		return documentLimit{2 << 20, 1 << 15}
	}
	return documentLimit{1 << 20, 1 << 13}
}

// Output is what a command printed on one node.
type Output struct {
	Node     string
	Document []byte    // JSON; nil without a document
	Received time.Time // when the command ended
	// Note is why the end of the document is missing; empty if it is complete.
	Note string
	// Problem is why no document was printed, and Remediation a sentence about it.
	Problem, Remediation string
}

// RunOnEach runs a program of the host on each node and returns the JSON document that
// it prints, in the order of the nodes. It runs as long as the slowest node, at most
// timeout for each group of ten.
func (o OC) RunOnEach(ctx context.Context, nodes []Node, timeout time.Duration, command ...string) []Output {
	all := make([]Output, len(nodes))
	var group errgroup.Group
	group.SetLimit(maxParallel)
	for i, n := range nodes {
		group.Go(func() error {
			all[i] = o.runOn(ctx, n, timeout, command)
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
	return all
}

func (o OC) runOn(ctx context.Context, n Node, timeout time.Duration, command []string) Output {
	if n.Absent != "" {
		return absent(n)
	}
	args := append([]string{"--quiet", "node/" + n.Name, "--", "chroot", "/host"}, command...)
	return o.run(ctx, timeout, limitOf(command).bytes, "debug", args...).output(ctx, n, command)
}

func absent(n Node) Output {
	return Output{
		Node: n.Name, Received: time.Now(),
		Problem: n.Absent, Remediation: fmt.Sprintf("Check the node: oc describe node %s.", n.Name),
	}
}

// output returns what a command printed on a node.
func (c call) output(ctx context.Context, n Node, command []string) Output {
	out := Output{Node: n.Name, Received: time.Now()}
	if ctx.Err() != nil && c.timeout == 0 {
		out.Problem, out.Remediation = "interrupted", "Run the command again."
		return out
	}
	if !c.tooLong { // the beginning of a document can contain others
		out.Document = findDocument(c.out)
	}
	if out.Document == nil && c.timeout == 0 { // of an error
		out.Document = findDocument(c.messages)
	}
	if out.Document == nil {
		out.Problem, out.Remediation = c.failure(n.Name, command)
		return out
	}
	limit := limitOf(command).values
	kept, more := jsonlimit.Cut(out.Document, limit)
	if out.Document = kept; more {
		out.Note = fmt.Sprintf("the output has more than %d values, and the rest is not shown", limit)
	}
	return out
}

// Decode reads the document of a node, which must be of this kind. It ignores unknown fields of
// other versions. Without such a document, Problem states the reason.
func Decode[T any](o *Output, kind string) (document T) {
	if o.Problem != "" {
		return document
	}
	var header struct {
		Kind    string `json:"kind"`
		Message string `json:"message"` // of an error
	}
	err := json.Unmarshal(o.Document, &header)
	switch {
	case err == nil && header.Kind == "Error":
		err = errors.New(header.Message)
	case err == nil && header.Kind != "" && header.Kind != kind:
		err = fmt.Errorf("not a %s, but of the kind %.100q", kind, header.Kind)
	case err == nil:
		err = json.Unmarshal(o.Document, &document)
	}
	if err != nil {
		o.Reject(kind, err)
	}
	return document
}

// Reject records why the document of this kind cannot be used.
func (o *Output) Reject(kind string, err error) {
	o.Problem = printable.Truncate(err.Error(), maxProblem)
	o.Remediation = fmt.Sprintf("Run the command by hand: oc debug node/%s -- chroot /host http01-proxyd %s", o.Node,
		strings.ToLower(kind))
}

// maxProblem is the limit of the text of a node about an error.
const maxProblem = 1 << 10

// findDocument returns the JSON document in an output. The logs of a pod mix standard output
// and standard error, so there may be other lines around it, and the events of a coordinated
// check precede it. The exit code of oc is not used: depending on its release and the timing,
// oc returns the exit code of the command, 1 or 0.
func findDocument(text []byte) []byte {
	const maxAttempts = 100 // a host may print many beginnings
	for attempts := 0; len(text) > 0 && attempts < maxAttempts; {
		if text[0] == '{' {
			attempts++
			var document json.RawMessage
			if json.NewDecoder(bytes.NewReader(text)).Decode(&document) == nil {
				if _, is := parseEvent(document); !is {
					return document
				}
			}
		}
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return nil
}

// failure returns why a node has printed no document.
func (c call) failure(node string, command []string) (problem, fix string) {
	byHand := fmt.Sprintf("oc debug node/%s -- chroot /host %s", node, strings.Join(command, " "))
	problem, fix = "no JSON document", "Run the command by hand: "+byHand
	printed := cmp.Or(lastLines(c.out), lastLines(c.messages))
	switch {
	case c.tooLong:
		return fmt.Sprintf("the output is longer than %d bytes", c.limit), fix
	case c.timeout > 0:
		problem = fmt.Sprintf("no output within %v", c.timeout)
		fix = "Increase --timeout if the image of the debug pod is not on the node yet, or run the command by " +
			"hand: " + byHand
	case printed == "" && c.err != nil:
		printed = c.err.Error()
	}
	if printed != "" {
		problem += ": " + printed
	}
	if login := access(lastLines(c.messages)); login != "" {
		fix = strings.ToUpper(login[:1]) + login[1:] + "."
	}
	return problem, fix
}
