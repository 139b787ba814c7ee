// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/nodes"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/verify"
)

// podImage has curl, and a cluster can pull it with its own pull secret.
const podImage = "registry.access.redhat.com/ubi9/ubi-minimal:latest"

func verifyCommand() *cobra.Command {
	var f nodeFlags
	var image, format string
	c := &cobra.Command{
		Use: "verify", Short: "verify the facts that only a real cluster can settle, and print a report",
		Long: `Verify what no test outside a cluster can: SELinux labels and domains, the kernel's
support, requests of pods, the policy in force, and the ports. oc debug runs the commands
in docs/verify-on-cluster.md on all control-plane nodes side by side. One more pod sends
one request. The command changes nothing else.

The text is Markdown, to attach to an issue. The report has names and addresses of nodes.
For a node whose operating system image contains the binary ("render --layered"), the
command expects no installer and no remover.

The exit code is 3 if an output is different from the expected one. It is 4 if a fact
could not be determined, for example without SELinux, and none is different.`,
		Example: `  oc http01 verify > report.md
  oc http01 verify --nodes master0 --pod-image registry.example.com/tools/curl:latest > report.md
  oc http01 verify -o json | jq '.facts[] | {id, outcomes: [.results[].outcome]}'`,
		RunE: func(c *cobra.Command, _ []string) error {
			outputs, err := f.runOnEach(c.Context(), c.ErrOrStderr(), "sh", "-c", verify.Script())
			if err != nil {
				return err
			}
			r := f.verification(c.Context(), outputs, image, time.Now())
			if format == cli.Text {
				err = verify.WriteMarkdown(c.OutOrStdout(), r.Document())
			} else {
				err = cli.WriteDocument(c.OutOrStdout(), format, r.Document())
			}
			if err != nil {
				return err
			}
			return exitWith(map[verify.Outcome]int{
				verify.AsExpected: cli.OK, verify.Different: cli.Unhealthy, verify.Undetermined: cli.Unknown,
			}[r.Outcome()])
		},
	}
	c.Flags().StringVar(&image, "pod-image", podImage, "container `IMAGE` with curl for the pod that sends a request")
	cli.OutputFlag(c, &format, cli.Text, cli.JSON, cli.YAML)
	f.addSelection(c)
	return c
}

// verification runs the checks of the whole cluster and returns the report.
func (f *nodeFlags) verification(ctx context.Context, outputs []nodes.Output, image string, now time.Time) verify.Report {
	r := verify.Report{Time: now, Tool: cli.Version()}
	for _, o := range outputs {
		r.Nodes = append(r.Nodes, verifiedNode(o))
	}
	version, err := f.oc.Output(ctx, f.timeout, "get", "clusterversion", "version", "-o", "jsonpath={.status.desired.version}")
	if err != nil {
		version = "unknown: " + err.Error()
	}
	r.OpenShift = version
	r.Cluster = []verify.Result{f.verifiedPolicy(ctx, r.Nodes), f.verifiedRequest(ctx, r.Nodes, image)}
	return r
}

func verifiedNode(o nodes.Output) verify.Node {
	if o.Problem != "" {
		return verify.AbsentNode(o.Node, o.Problem)
	}
	n, err := verify.ParseNode(o.Node, o.Document)
	if err != nil {
		return verify.AbsentNode(o.Node, err.Error())
	}
	return n
}

func (f *nodeFlags) verifiedPolicy(ctx context.Context, all []verify.Node) verify.Result {
	out, err := f.oc.Output(ctx, f.timeout, "get", verify.PolicyArguments()...)
	if err != nil {
		return verify.NotRun(verify.PolicyInForce, err.Error())
	}
	return verify.ClusterResult(verify.PolicyInForce, all, verify.Placed(verify.PolicyInForce, verify.Pod{}), out)
}

// verifiedRequest sends a request from a pod on the node that holds the API VIP.
func (f *nodeFlags) verifiedRequest(ctx context.Context, all []verify.Node, image string) verify.Result {
	i := slices.IndexFunc(all, func(n verify.Node) bool { return n.HoldsVIP })
	if i < 0 {
		return verify.NotRun(verify.PodRequest, "no node reports that it holds the API VIP")
	}
	address, err := f.oc.Output(ctx, f.timeout, "get", "infrastructure", "cluster", "-o", "jsonpath={.status.apiServerURL}")
	if err != nil {
		return verify.NotRun(verify.PodRequest, err.Error())
	}
	api, err := url.Parse(strings.TrimSpace(address))
	if err != nil || api.Hostname() == "" {
		return verify.NotRun(verify.PodRequest, "the Infrastructure has no status.apiServerURL")
	}
	overrides := fmt.Sprintf(`{"apiVersion":"v1","spec":{"nodeName":%q,"tolerations":[{"operator":"Exists"}]}}`, all[i].Name)
	// Two administrators can verify one cluster at once.
	pod := verify.Pod{Suffix: strings.ToLower(rand.Text()[:8]), Node: all[i].Name, Image: image, APIName: api.Hostname()}
	out, err := f.oc.Output(ctx, f.timeout, "run", "http01-verify-"+pod.Suffix, "--attach", "--rm", "--quiet", "--restart=Never", "--image="+image,
		"--overrides="+overrides, "--command", "--", "curl", "-si", "--max-time", "10", "http://"+api.Hostname()+"/")
	command := verify.Placed(verify.PodRequest, pod)
	if err != nil {
		out = strings.TrimSpace(out + "\n" + err.Error())
	}
	return verify.ClusterResult(verify.PodRequest, all, command, out)
}
