// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// plugin runs oc-http01 with an oc that starts the commands on the nodes of the lab. Like a
// debug pod with --tty=false, they have the standard input of oc.
func (c *cluster) plugin(args ...string) (out string, code int) {
	c.t.Helper()
	tool, err := lab.BuildCommand(c.t.Context(), "oc-http01")
	must(c.t, err)
	var nodes []string
	var script strings.Builder
	for _, n := range c.ControlPlane {
		nodes = append(nodes, fmt.Sprintf(`{"metadata": {"name": %q}}`, n.Name))
		flags := n.CheckFlags()
		for verb, count := range map[string]int{"check": len(flags), "trace": 10, "status": 2} {
			given := flags[:count]
			if verb == "status" {
				given = []string{"--status-socket", n.StatusSocket()}
			}
			fmt.Fprintf(&script, "\"node/%s %s\") exec nsenter --net=/run/netns/%s %s \"$@\" %s ;;\n", n.Name, verb, n.Namespace,
				shared.binary, strings.Join(given, " "))
		}
	}
	dir := c.t.TempDir()
	text := fmt.Sprintf(`#!/bin/sh
case "$1 $2" in "get nodes") echo '{"kind": "List", "items": [%s]}'; exit ;; esac
node=$3
[ "$4" = --tty=false ] || exec < /dev/null
while [ "$1" != http01-proxyd ]; do shift; done
shift
case "$node $1" in
%sesac
exit 1
`, strings.Join(nodes, ", "), script.String())
	must(c.t, os.WriteFile(filepath.Join(dir, "oc"), []byte(text), 0o700))
	cmd := exec.CommandContext(c.t.Context(), tool, args...)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	var problems bytes.Buffer
	cmd.Stderr = &problems
	result, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	if problems.Len() > 0 {
		c.t.Errorf("oc http01 %q: %s", args, problems.String())
	}
	return string(result), cmd.ProcessState.ExitCode()
}

// clusterReport is what a test reads of the document of oc http01 check.
type clusterReport struct {
	StartMs, DurationMs float64
	Findings            []clusterFinding
}

type clusterFinding struct {
	ID, Message, Remediation string
	Nodes, Commands          []string
}

// clusterCheck runs oc http01 check for the ruleset.
func (c *cluster) clusterCheck() (found clusterReport, code int) {
	c.t.Helper()
	out, code := c.plugin("check", "-o", "json", "--only", "ruleset")
	must(c.t, json.Unmarshal([]byte(out), &found))
	if found.StartMs <= 0 || found.DurationMs <= 0 {
		c.t.Errorf("the times of the start and the checks: %v, %v", found.StartMs, found.DurationMs)
	}
	return found, code
}

// TestTwoHolders has the API VIPs on two nodes, because keepalived was killed on one. oc http01 status reports
// both families in one problem, whose commands delete the VIPs where keepalived does not run, and nowhere else.
func TestTwoHolders(t *testing.T) {
	c := healthy(t, nil)
	twoHolders(c)
	type problem struct {
		ID, Message string
		Commands    []string
	}
	duplicates := func() (found []problem) {
		out, _ := c.plugin("status", "-o", "json")
		var s struct{ Problems []problem }
		must(t, json.Unmarshal([]byte(out), &s))
		return slices.DeleteFunc(s.Problems, func(p problem) bool { return p.ID != "vip-duplicate" })
	}
	var found []problem
	must(t, eventually(t, func() error {
		both := c.API.V4.String() + " and " + c.API.V6.String()
		if found = duplicates(); len(found) != 1 || !strings.Contains(found[0].Message, both) {
			return fmt.Errorf("%+v", found)
		}
		return nil
	}))
	// check compares the nodes too: neither of them can see the other one.
	same := func(f clusterFinding) bool { return f.ID == "vip-duplicate" && f.Message == found[0].Message }
	if compared, code := c.clusterCheck(); code != 3 || !slices.ContainsFunc(compared.Findings, same) {
		t.Errorf("oc http01 check: exit code %d, %+v", code, compared.Findings)
	}
	c.expectHolderByMAC()
	// keepalived still runs on the second node.
	for _, command := range found[0].Commands {
		out, err := exec.CommandContext(t.Context(), "env", "PATH="+c.debugPods(c.ControlPlane[1].Name)+":"+os.Getenv("PATH"),
			"sh", "-c", command).CombinedOutput()
		t.Logf("%s: %v\n%s", command, err, out)
	}
	for _, vip := range c.API.Both() {
		for i, want := range []bool{false, true, false} {
			if held, err := c.ControlPlane[i].Holds(t.Context(), vip); err != nil || held != want {
				t.Errorf("%s holds %s: %v, %v", c.ControlPlane[i], vip, held, err)
			}
		}
	}
	must(t, eventually(t, func() error {
		if found := duplicates(); len(found) > 0 {
			return fmt.Errorf("%+v", found)
		}
		return nil
	}))
}

// expectHolderByMAC runs the command of vip-two-hosts on a node without the VIPs: it prints an address of a holder.
func (c *cluster) expectHolderByMAC() {
	c.t.Helper()
	out, err := c.standby().Run(c.t.Context(), shared.binary, "explain", "vip-two-hosts", "-o", "json")
	must(c.t, err)
	var explained struct{ Findings []struct{ Commands []string } }
	must(c.t, json.Unmarshal([]byte(out), &explained))
	command := strings.ReplaceAll(explained.Findings[0].Commands[0], "{vip}", c.API.V4.String())
	must(c.t, eventually(c.t, func() error {
		for _, at := range []netip.Addr{c.API.V4, c.ControlPlane[0].Addresses.V4, c.ControlPlane[1].Addresses.V4} {
			if conn, err := c.standby().Dial(c.t.Context(), "tcp", netip.AddrPortFrom(at, 22).String()); err == nil {
				_ = conn.Close() // only the neighbour table matters
			}
		}
		out, err := c.standby().Run(c.t.Context(), "sh", "-c", command)
		for _, m := range c.ControlPlane[:2] {
			if err == nil && strings.Contains(out, m.Addresses.V4.String()+" ") {
				return nil
			}
		}
		return errors.Join(err, fmt.Errorf("%s printed %q", command, out))
	}))
}

// debugPods returns a directory with an oc that runs commands on the nodes of the lab. pgrep finds keepalived on one
// of them.
func (c *cluster) debugPods(withKeepalived string) string {
	c.t.Helper()
	dir := c.t.TempDir()
	var nodes strings.Builder
	for _, n := range c.ControlPlane {
		fmt.Fprintf(&nodes, "node/%s) ns=%s ;;\n", n.Name, n.Namespace)
	}
	for name, text := range map[string]string{
		"oc": "[ \"$1 $3 $4 $5\" = \"debug -- chroot /host\" ] || exit 9\nnode=$2\ncase $node in\n" + nodes.String() +
			"*) exit 9 ;;\nesac\nshift 5\nNODE=$node exec nsenter --net=/run/netns/$ns \"$@\"\n",
		"pgrep":  "[ \"$NODE\" = node/" + withKeepalived + " ] && echo 1\n",
		"crictl": "exit 0\n",
	} {
		must(c.t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o700))
	}
	return dir
}

// TestCoordinated: the tests of the other nodes arrive while the holder follows packets:
// a single run of oc http01 check names the nodes whose packets a rule of the holder drops.
// The services send no tests here. trace shows the same rule.
func TestCoordinated(t *testing.T) {
	c := healthy(t, func(n *lab.Node) string { return n.TestConfig(0) })
	if found, code := c.clusterCheck(); code != 0 || len(found.Findings) != 0 {
		t.Fatalf("a healthy cluster: exit code %d, %+v", code, found)
	}
	c.loadCase(packetCase{text: "table inet admin {\nchain input { type filter hook input priority 5; iif != lo tcp " +
		"dport 8888 drop; }\n}\n"})
	found, code := c.clusterCheck()
	if code != 3 || len(found.Findings) == 0 || found.Findings[0].ID != "packet-dropped" ||
		!slices.Contains(found.Findings[0].Nodes, c.holder().Name) {
		t.Errorf("exit code %d, %+v", code, found)
	}
	text := fmt.Sprintf("%+v", found.Findings)
	parts := []string{"inet admin input", "nft insert rule inet admin input tcp dport 8888 accept"}
	for _, n := range c.ControlPlane[1:] {
		parts = append(parts, n.Name, n.Addresses.V4.String(), n.Addresses.V6.String())
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("the findings do not contain %q: %s", part, text)
		}
	}
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			default:
				_ = c.request(c.API.V4) // times out after a while
			}
		}
	}()
	out, code := c.plugin("trace", "--count", "1", "--duration", "1m", "--from", c.Gateway.Addresses.V4.String())
	close(done)
	<-ended
	for _, part := range []string{
		"on " + c.holder().Name + ",", "SYN to " + c.API.V4.String() + ":80\n", "Translation:    port 80 to port 8888\n",
		"Input:          inet admin input  drop\n",
		"End:            ✗ dropped at port 8888 in chain inet admin input: ", "Fix:            oc debug node/" +
			c.holder().Name + " -- chroot /host nft insert rule inet admin input tcp dport 8888 accept\n",
	} {
		if !strings.Contains(out, part) || code != 3 {
			t.Errorf("exit code %d, %q is missing in:\n%s", code, part, out)
		}
	}
}
