// SPDX-License-Identifier: Apache-2.0

package microshift_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
)

// TestValueErrors: errors use the terms of the file and name the position.
func TestValueErrors(t *testing.T) {
	t.Parallel()
	const last = "config.d/20.yaml"
	for name, tt := range map[string]struct {
		main, last string // contents of both files; the error is in the last one that is set
		want       string // with %s for its path
	}{
		"a string for a port": {
			"ingress:\n  ports:\n    http: 80\n",
			"# ours\ningress:\n  ports:\n    http: eighty\n",
			"MicroShift's configuration is invalid: ingress.ports.http is a string; it must be an integer: correct it in %s, line 4",
		},
		"a fraction for an integer": {
			"ingress: {ports: {http: 8.5}}\n", "",
			"MicroShift's configuration is invalid: ingress.ports.http is 8.5; it must be an integer: correct it in %s, line 1",
		},
		"a list for a mapping": {
			"dns: {}\nnode:\n- a\n", "",
			"MicroShift's configuration is invalid: node is a list; it must be a mapping: correct it in %s, line 2",
		},
		"a key in another case": {
			"\nNode:\n  NODEIP: true\n", "",
			"MicroShift's configuration is invalid: node.nodeIP is a boolean; it must be a string: correct it in %s, line 3",
		},
		"below a list": {
			"apiServer:\n  namedCertificates:\n  - certPath: /a\n    names: a\n", "",
			"MicroShift's configuration is invalid: apiServer.namedCertificates.names is a string; it must be a list: correct it in %s, line 3",
		},
		"a number in a list": {
			"dns: {}\ningress:\n  listenAddress: [eth0, 1]\n", "",
			"MicroShift's configuration is invalid: ingress.listenAddress has an entry that is a number; entries must be strings: correct it in %s, line 3",
		},
		"a number for a list": {
			"ingress: {listenAddress: 1}\n", "",
			"MicroShift's configuration is invalid: ingress.listenAddress is a number; it must be a list: correct it in %s, line 1",
		},
		"a list in a list": {
			"network: {serviceNetwork: [[10.43.0.0/16]]}\n", "",
			"MicroShift's configuration is invalid: network.serviceNetwork has an entry that is a list; entries must be strings: correct it in %s, line 1",
		},
		"a string in a list of mappings": {
			"apiServer: {namedCertificates: [/a]}\n", "",
			"MicroShift's configuration is invalid: apiServer.namedCertificates has an entry that is a string; entries must be mappings: correct it in %s, line 1",
		},
		"a number in a list below a list": {
			"apiServer:\n  namedCertificates:\n  - names: [1]\n", "",
			"MicroShift's configuration is invalid: apiServer.namedCertificates.names has an entry that is a number; entries must be strings: correct it in %s, line 3",
		},
		"not an address": {
			"node: {}\n",
			"\nnode: {nodeIP: edge}\n",
			`MicroShift's configuration is invalid: node.nodeIP is "edge", which is not an address: correct it in %s, line 2`,
		},
		"a value in an alias": {
			"a: &a {nodeIP: edge}\nnode: *a\n", "",
			`MicroShift's configuration is invalid: node.nodeIP is "edge", which is not an address: correct it in %s`,
		},
		"a mapping as a key": {
			"node:\n  ? {a: b}\n  : c\n", "",
			"MicroShift's %s is invalid: a key is a list or a mapping: a key must be a string",
		},
		"null as a key": {
			"node: {~: c}\n", "",
			"MicroShift's %s is invalid: invalid key null: a key must be a string",
		},
		"not YAML": {
			"node:\n  a: b: c\n", "",
			"MicroShift's %s is invalid: invalid YAML: line 2: mapping values are not allowed in this context",
		},
		"two errors": {
			"node: {nodeIP: edge}\ningress: {status: gone}\n", "",
			`MicroShift's configuration is invalid: node.nodeIP is "edge", which is not an address: correct it in %s, line 1; ` +
				`ingress.status is "gone"; allowed values are Managed and Removed: correct it in %s, line 2`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, texts := "config.yaml", map[string]string{"config.yaml": tt.main}
			if tt.last != "" {
				file, texts[last] = last, tt.last
			}
			dir := writeFiles(t, texts)
			_, err := microshift.Read(dir)
			want := strings.ReplaceAll(tt.want, "%s", filepath.Join(dir, file))
			if err == nil || err.Error() != want {
				t.Errorf("%v, want\n%s", err, want)
			}
		})
	}
}
