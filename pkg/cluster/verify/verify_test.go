// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the document")

const document = "../../../docs/verify-on-cluster.md"

// TestJudge: outputs of nodes, and what they mean.
func TestJudge(t *testing.T) {
	t.Parallel()
	const proxy = "system_u:system_r:unconfined_service_t:s0 2731 ? 00:00:01 http01-proxyd\n"
	const listening = "State  Recv-Q Send-Q Local Address:Port Peer Address:Port Process\n" +
		`LISTEN 0      4096               *:8888            *:*    users:(("http01-proxyd",pid=2742,fd=5),("http01-proxyd",pid=2731,fd=9))` + "\n"
	const answer = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\nOnly /.well-known/acme-challenge/* is allowed\n"
	for _, tt := range []struct {
		id, name, output string
		holds            bool
		want             Outcome
	}{
		{"B1", "readable", "system_u:object_r:lib_t:s0 http01-proxyd-install.service\n", false, AsExpected},
		{"B1", "as other units", "system_u:object_r:systemd_unit_file_t:s0 http01-proxyd-install.service\n", false, AsExpected},
		{"B1", "not readable", "system_u:object_r:lib_t:s0 a.service\nsystem_u:object_r:var_t:s0 http01-proxyd-install.service\n", false, Different},
		{"B1", "without SELinux", "? http01-proxyd-install.service\n", false, Undetermined},
		{"B1", "no folder", "ls: cannot access '/usr/local/lib/systemd/system/': No such file or directory\n", false, Undetermined},
		{"B1", "nothing", "", false, Undetermined},

		{"B2", "the installer", "# /etc/systemd/system/http01-proxyd-install.service\n[Unit]\n", false, AsExpected},
		{"B2", "the remover", "# /usr/local/lib/systemd/system/http01-proxyd-install.service\n[Unit]\n", false, AsExpected},
		{"B2", "not found", "No files found for http01-proxyd-install.service.\n", false, Different},

		{"B3", "no denial", proxy + proxy + "<no matches>\n", false, AsExpected},
		{"B3", "another domain", strings.Replace(proxy, "unconfined_service_t", "init_t", 1), false, Different},
		{"B3", "a denial", proxy + `type=AVC msg=audit(1): avc:  denied  { read } for  pid=1 comm="systemd" name="http01-proxyd-install.service"` + "\n", false, Different},
		{"B3", "without SELinux", "- 2731 ? 00:00:01 http01-proxyd\n", false, Undetermined},
		{"B3", "no process", "sh: ausearch: not found\n", false, Undetermined},

		{"B4", "kept", "5.14.0-570.el9.x86_64\n", true, AsExpected},
		{"B4", "no table yet", "5.14.0-570.el9.x86_64\n", false, Undetermined},
		{"B4", "not kept", "5.14.0-427.el9.x86_64\nthis kernel keeps no table without its process (Linux 6.9 does)\n", true, Different},
		{"B4", "nothing", "", true, Undetermined},

		{"B5", "the proxy answers", answer, false, AsExpected},
		{"B5", "a router answers", strings.Replace(answer, "400 Bad Request", "503 Service Unavailable", 1), false, Different},
		{"B5", "another server answers", strings.Replace(answer, "Only", "No", 1), false, Different},
		{"B5", "no answer", "", false, Undetermined},

		{"B6", "later node", "Nov 23 10:00:01 m3 http01-proxyd-install[900]: pulling\n-- Boot 0a1b --\nNov 23 10:05:01 m3 http01-proxyd-install[900]: quay.io/a@sha256:b is installed: v1\n", false, AsExpected},
		{"B6", "not installed", "-- Boot 0a1b --\n", false, Different},
		{"B6", "nothing", "", false, Different},

		{"B7", "in force", "a.service http01-proxyd.service http01-proxyd-table.service http01-proxyd-install.service http01-proxyd-install.timer", false, AsExpected},
		{"B7", "vanished", "nftables.service", false, Different},
		{"B7", "nothing", "", false, Different},

		{"B8", "ours", listening, false, AsExpected},
		{"B8", "another program", listening + `LISTEN 0 4096 127.0.0.1:9645 *:* users:(("otelcol",pid=1,fd=3))` + "\n", false, Different},
		{"B8", "free", "State  Recv-Q Send-Q\n", false, Undetermined},
	} {
		t.Run(tt.id+" "+tt.name, func(t *testing.T) {
			t.Parallel()
			if got := byID(tt.id).judge(Node{HoldsVIP: tt.holds}, tt.output); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// TestJudgeLayered: a node whose operating system image contains the binary has no
// installer and no remover, and its policy has no entry for them.
func TestJudgeLayered(t *testing.T) {
	t.Parallel()
	const noFolder = "ls: cannot access '/usr/local/lib/systemd/system/': No such file or directory\n"
	const noUnit = "No files found for http01-proxyd-install.service.\n"
	const installed = "Nov 23 10:05:01 m3 http01-proxyd-install[900]: quay.io/a@sha256:b is installed: v1\n"
	for _, tt := range []struct {
		id, name, output string
		want             Outcome
	}{
		{"B1", "no folder", noFolder, AsExpected},
		{"B1", "units of others", "system_u:object_r:lib_t:s0 a.service\n", AsExpected},
		{"B1", "a remover is left", "system_u:object_r:lib_t:s0 http01-proxyd-install.service\n", Different},
		{"B2", "no installer", noUnit, AsExpected},
		{"B2", "a remover is left", "# /usr/local/lib/systemd/system/http01-proxyd-install.service\n", Different},
		{"B2", "an installer", "# /etc/systemd/system/http01-proxyd-install.service\n", Different},
		{"B6", "nothing", "", NotApplicable},
		{"B6", "an installer of the past", installed, NotApplicable},
		{"B7", "in force", "/etc/http01-proxyd /usr/local/lib/systemd/catalog/http01-proxyd.catalog nftables.service", AsExpected},
		{"B7", "vanished", "/etc/motd nftables.service", Different},
		{"B7", "of the installer", "/etc/http01-proxyd http01-proxyd.service http01-proxyd-install.service", Different},
	} {
		t.Run(tt.id+" "+tt.name, func(t *testing.T) {
			t.Parallel()
			// A node that has not answered does not count.
			nodes := []Node{{Name: "m0", Layered: true, outputs: map[string]string{tt.id: tt.output}}, AbsentNode("m1", "no output")}
			got := Report{Nodes: nodes[:1]}
			if tt.id == PolicyInForce {
				got.Cluster = []Result{ClusterResult(tt.id, nodes, "oc get", tt.output)}
			}
			for _, r := range got.Results() {
				if r.Check.ID == tt.id && r.Outcome != tt.want {
					t.Errorf("%q, want %q", r.Outcome, tt.want)
				}
			}
		})
	}
	for program, want := range map[string]bool{
		"ExecStart={ path=/usr/bin/http01-proxyd ; argv[]=/usr/bin/http01-proxyd run ; }":             true,
		"ExecStart={ path=/usr/local/bin/http01-proxyd ; argv[]=/usr/local/bin/http01-proxyd run ; }": false,
		"": false,
	} {
		text, err := json.Marshal(map[string]string{programKey: base64.StdEncoding.EncodeToString([]byte(program))})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := ParseNode("m0", text); err != nil || n.Layered != want {
			t.Errorf("%q: %+v, %v", program, n, err)
		}
	}
}

// TestScript runs the script with programs that print known outputs.
func TestScript(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	for name, text := range map[string]string{
		"http01-proxyd": `printf '%s\n' '{"version": "v1", "conditions": [{"type": "HTTP01ChallengeProxyReady", "status": "True", "reason": "Serving"}], "vips": [{"address": "192.0.2.5", "state": "Held"}]}'`,
		"ls":            `test "$*" = "-Z /usr/local/lib/systemd/system/" && echo 'u:r:lib_t:s0 a"b\'`,
		"systemctl":     `echo "# /etc/systemd/system/$2"; yes | head -n 1000000`,
		"ps":            `echo "u:r:unconfined_service_t:s0 1 ? 0 http01-proxyd"`,
		"ausearch":      `cat; echo "<no matches>" >&2`, // standard input has ended
		"journalctl":    `yes -- "$* is installed" | head -n 100000`,
		"ss":            `echo 'LISTEN 0 1 *:8888 *:* users:(("http01-proxyd",pid=1,fd=1))'; exit 1`,
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", Script())
	cmd.Env = []string{"PATH=" + bin + ":/usr/bin:/bin"}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	n, err := ParseNode("m0", out)
	if err != nil {
		t.Fatalf("%v in %.200s", err, out)
	}
	if !n.HoldsVIP || n.State != "Serving" || n.Version != "v1" || n.System == "" {
		t.Errorf("%+v", n)
	}
	outcomes := map[string]Outcome{}
	for _, r := range n.results() {
		outcomes[r.Check.ID] = r.Outcome
	}
	if diff := cmp.Diff(map[string]Outcome{"B1": AsExpected, "B2": AsExpected, "B3": AsExpected, "B4": AsExpected, "B6": AsExpected, "B8": AsExpected}, outcomes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if size := len(n.outputs["B2"]); size != maxOutput {
		t.Errorf("%d bytes of a long output", size)
	}
	if got := n.outputs["B1"]; got != "u:r:lib_t:s0 a\"b\\\n" {
		t.Errorf("quotes: %q", got)
	}
}

// TestParseNode: a document that the script did not print is rejected.
func TestParseNode(t *testing.T) {
	t.Parallel()
	long := base64.StdEncoding.EncodeToString(make([]byte, maxOutput+1))
	for _, text := range []string{"", "[]", `{"B1": 1}`, `{"B1": "!"}`, `{"B1": "` + long + `"}`} {
		if n, err := ParseNode("m0", []byte(text)); err == nil || !strings.Contains(err.Error(), "cannot read the output of m0") {
			t.Errorf("%.40s: %+v, %v", text, n, err)
		}
	}
}

// FuzzParseNode: a node cannot put a line of its own outside an indented block.
func FuzzParseNode(f *testing.F) {
	f.Add("B1", "u:r:var_t:s0 x\n## injected\n\x1b[31m")
	f.Add("status", `{"version": "v\n# x", "conditions": [{"type": "HTTP01ChallengeProxyReady", "status": "True", "reason": "Serving"}]}`)
	f.Add("system", "a\n# b\u2028# c")
	f.Fuzz(func(t *testing.T, key, output string) {
		text, err := json.Marshal(map[string]string{key: base64.StdEncoding.EncodeToString([]byte(output))})
		if err != nil {
			return
		}
		n, err := ParseNode("m0", text)
		if err != nil {
			return
		}
		var empty, with strings.Builder
		at := time.Unix(0, 0)
		if err := errors.Join(
			WriteMarkdown(&empty, Report{Time: at, Nodes: []Node{{Name: "m0", outputs: map[string]string{}}}}.Document()),
			WriteMarkdown(&with, Report{Time: at, Nodes: []Node{n}}.Document()),
		); err != nil {
			t.Fatal(err)
		}
		headings := func(report string) int { return strings.Count("\n"+report, "\n#") }
		if headings(empty.String()) != headings(with.String()) || strings.ContainsAny(with.String(), "\x1b\r") {
			t.Errorf("%q", with.String())
		}
	})
}

// TestReport: the report of a cluster with a node that has not answered.
func TestReport(t *testing.T) {
	t.Parallel()
	n := Node{Name: "m0", System: "RHCOS 9.6", Version: "v1", State: "Serving", HoldsVIP: true, outputs: map[string]string{"B1": "u:r:var_t:s0 x\n# no heading\n"}}
	r := Report{
		Time: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC), Tool: "v2", OpenShift: "4.19.3",
		Nodes:   []Node{n, AbsentNode("m1", "no output within 2m0s")},
		Cluster: []Result{ClusterResult(PolicyInForce, nil, "oc get x", ""), NotRun(PodRequest, "no node holds it")},
	}
	var b strings.Builder
	if err := WriteMarkdown(&b, r.Document()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"- time: 2026-11-23T12:00:00Z\n- oc-http01: v2\n- OpenShift: 4.19.3\n- m0: RHCOS 9.6, http01-proxyd v1, Serving, holds the API VIP\n- m1: no output within 2m0s\n",
		"| B1: label of the remover | m0 | different |\n| B1: label of the remover | m1 | not determined |\n| B2: ",
		"\n## B1: label of the remover\n\nExpected: The type of each file is lib_t or systemd_unit_file_t. If the operating system image contains the binary, there is no remover.\n\nm0, different:\n\n    $ ls -Z /usr/local/lib/systemd/system/\n    u:r:var_t:s0 x\n    # no heading\n\nWith var_t, systemd",
		"\nm1, not determined:\n\n    $ ls -Z /usr/local/lib/systemd/system/\n    no output within 2m0s\n",
		"\ncluster, different:\n\n    $ oc get x\n    (nothing)\n",
		"\ncluster, not determined:\n\n    $ oc run ",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if r.Outcome() != Different {
		t.Errorf("the outcome is %q", r.Outcome())
	}
	if long := limitedLines(strings.Repeat("x \r\n", 40)); len(long) != 31 || long[29] != "x" || long[30] != "(10 more lines)" {
		t.Errorf("%q", long)
	}
}

// TestDocumentIsCurrent: docs/verify-on-cluster.md has each command with its expected
// output.
func TestDocumentIsCurrent(t *testing.T) {
	t.Parallel()
	want := renderDocument()
	if *update {
		if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), want); diff != "" {
		t.Errorf("%s is not current, run make docs (-file +checks):\n%s", document, diff)
	}
}

func renderDocument() string {
	var b strings.Builder
	b.WriteString(`# Verify on a cluster

<!-- Generated from pkg/cluster/verify by make docs: do not edit. -->

The tests of this project run on hosts that boot, with the real programs. They have no OpenShift, and no SELinux. These facts need a real cluster: please run the commands once, and attach the report to an [issue](https://github.com/http01-proxyd/http01-proxyd/issues).

One command runs all of them and prints the report. It is a subcommand of the program that installs the service, so nothing else must be downloaded:

` + "```console\n$ oc http01 verify > report.md\n```" + `

It starts one debug pod on each control-plane node, and one pod that sends one request. It changes nothing else. On a cluster without access to registry.access.redhat.com, give an image with curl: ` + "`--pod-image`" + `. The exit code is 0 if all outputs are as expected, 3 if one is different, and 4 if a fact was not determined. With ` + "`-o json`" + `, the report has [a schema](reference/verification.schema.json).

To run one by hand, replace NODE by a control-plane node. For B5, NODE is the one that holds the API VIP, NAME is the name of the API, and IMAGE is an image with curl. SUFFIX is any lower-case text: two administrators can run the command at once.

`)
	for _, c := range Checks() {
		fmt.Fprintf(&b, "- [ ] [%s: %s](#%s)\n", c.ID, c.Title, strings.ToLower(c.ID)+"-"+strings.ReplaceAll(strings.ToLower(c.Title), " ", "-"))
	}
	for _, c := range Checks() {
		command := c.Command
		if c.OnNodes() {
			if strings.ContainsAny(command, "|;") {
				command = `sh -c "` + command + `"`
			}
			command = "oc debug -q node/NODE -- chroot /host " + command
		}
		fmt.Fprintf(&b, "\n## %s: %s\n\n```console\n$ %s\n```\n\n- Expected: %s\n- Otherwise: %s\n", c.ID, c.Title, command, c.Expected, c.Hint)
	}
	return b.String()
}
