// SPDX-License-Identifier: Apache-2.0

package certificatefiles

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// probe is what the unit runs instead of the script.
const probe = `#!/bin/sh
try() {
	name=$1
	shift
	if "$@" >/dev/null 2>&1; then echo "$name: yes"; else echo "$name: no"; fi
}
echo "user: $(id -un)"
grep -E '^(CapPrm|CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\t'
try 'write to the target' sh -c 'touch "$TARGET/probe" && rm "$TARGET/probe"'
try 'write beside the target' touch "$TARGET/../probe"
try 'write to /etc' touch /etc/probe
try 'read the credential' cat "$CREDENTIALS_DIRECTORY/kubeconfig"
try 'read the kubeconfig of root' cat /etc/http01-certificate/kubeconfig
try 'read the keys of the API server' cat ` + state + `/own.key
try 'see the first process' test -e /proc/1
try 'mount' mount -t tmpfs none /mnt
try 'make a user namespace' unshare --user true
try 'connect to the API server' curl --insecure --max-time 10 https://127.0.0.1:6443/readyz
try 'connect to another host' curl --max-time 3 http://192.0.2.1:8080/
`

// allowed is what the script can do, and what it cannot.
const allowed = `user: http01-certificate
CapPrm:0000000000000000
CapEff:0000000000000000
CapBnd:0000000000000000
NoNewPrivs:1
Seccomp:2
write to the target: yes
write beside the target: no
write to /etc: no
read the credential: yes
read the kubeconfig of root: no
read the keys of the API server: no
see the first process: no
mount: no
make a user namespace: no
connect to the API server: yes
connect to another host: no
`

// sandbox requires that the unit gives the script no other rights than those that it needs.
func sandbox(t *testing.T, n *node) {
	t.Helper()
	listener := must1((&net.ListenConfig{}).Listen(t.Context(), "tcp", "192.0.2.1:8080"))(t)
	stop := lab.Serve(listener, nil, http.NotFoundHandler())
	t.Cleanup(func() { must(t, stop()) })
	must1(n.Run(t.Context(), "curl", "--silent", "--max-time", "10", "http://192.0.2.1:8080/"))(t)

	const dropin = units + unit + ".service.d/probe.conf"
	must(t, n.WriteFile("/usr/bin/probe", probe, 0o755))
	must(t, n.WriteFile(dropin, "[Service]\nExecStart=\nExecStart=/usr/bin/probe\n", 0o644))
	must1(n.Run(t.Context(), "sh", "-ec", "systemctl daemon-reload; systemctl start "+unit))(t)
	got := must1(n.Run(t.Context(), "journalctl", "--identifier=probe", "--output=cat"))(t)
	if got != allowed {
		t.Errorf("the unit permits\n%s\nwant\n%s", got, allowed)
	}
	must(t, n.RemoveFile(dropin))
	must1(n.Run(t.Context(), "systemctl", "daemon-reload"))(t)
	lines := strings.Split(strings.TrimSpace(must1(n.Run(t.Context(), "systemd-analyze", "security", "--no-pager",
		unit+".service"))(t)), "\n")
	t.Logf("\n%s%s", got, lines[len(lines)-1])
}

// unreadable waits until the script cannot read the Secret, for a reason. It replaces nothing.
func unreadable(t *testing.T, n *node, d distribution, reason string) {
	t.Helper()
	before := n.tree(t, d)
	want := "cannot read the Secret api-certificate/api-certificate: " + reason + ". Nothing was replaced in " + d.target + "."
	// The API server accepts a deleted token for some seconds.
	must(t, lab.Eventually(t.Context(), "the script to fail", func(context.Context) error {
		line, err := n.start(t)
		if err == nil || line != want {
			return errors.Join(fmt.Errorf("the journal has %q, want %q", line, want), err)
		}
		return nil
	}))
	t.Log(want)
	if after := n.tree(t, d); after != before {
		t.Errorf("the files changed from\n%s\nto\n%s", before, after)
	}
}
