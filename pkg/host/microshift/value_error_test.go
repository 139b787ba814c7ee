// SPDX-License-Identifier: Apache-2.0

package microshift_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
)

// TestValueErrors: what is wrong is told in the words of the file, with its place.
func TestValueErrors(t *testing.T) {
	t.Parallel()
	const last = "config.d/20.yaml"
	for name, tt := range map[string]struct {
		main, last string // the texts of both files; the mistake is in the last that is given
		says       string // with %s for its path
	}{
		"a text for a port": {
			"ingress:\n  ports:\n    http: 80\n",
			"# ours\ningress:\n  ports:\n    http: eighty\n",
			"MicroShift's configuration is not taken: ingress.ports.http is a text, and is to be a whole number: correct it in %s, line 4",
		},
		"a part for a whole": {
			"ingress: {ports: {http: 8.5}}\n", "",
			"MicroShift's configuration is not taken: ingress.ports.http is 8.5, and is to be a whole number: correct it in %s, line 1",
		},
		"a list for a mapping": {
			"dns: {}\nnode:\n- a\n", "",
			"MicroShift's configuration is not taken: node is a list, and is to be a mapping: correct it in %s, line 2",
		},
		"a key in another case": {
			"\nNode:\n  NODEIP: true\n", "",
			"MicroShift's configuration is not taken: node.nodeIP is true or false, and is to be a text: correct it in %s, line 3",
		},
		"below a list": {
			"apiServer:\n  namedCertificates:\n  - certPath: /a\n    names: a\n", "",
			"MicroShift's configuration is not taken: apiServer.namedCertificates.names is a text, and is to be a list: correct it in %s, line 3",
		},
		"a number in a list": {
			"dns: {}\ningress:\n  listenAddress: [eth0, 1]\n", "",
			"MicroShift's configuration is not taken: ingress.listenAddress has an entry that is a number, and its entries are to be texts: correct it in %s, line 3",
		},
		"a number for a list": {
			"ingress: {listenAddress: 1}\n", "",
			"MicroShift's configuration is not taken: ingress.listenAddress is a number, and is to be a list: correct it in %s, line 1",
		},
		"a list in a list": {
			"network: {serviceNetwork: [[10.43.0.0/16]]}\n", "",
			"MicroShift's configuration is not taken: network.serviceNetwork has an entry that is a list, and its entries are to be texts: correct it in %s, line 1",
		},
		"a text in a list of mappings": {
			"apiServer: {namedCertificates: [/a]}\n", "",
			"MicroShift's configuration is not taken: apiServer.namedCertificates has an entry that is a text, and its entries are to be mappings: correct it in %s, line 1",
		},
		"a number in a list below a list": {
			"apiServer:\n  namedCertificates:\n  - names: [1]\n", "",
			"MicroShift's configuration is not taken: apiServer.namedCertificates.names has an entry that is a number, and its entries are to be texts: correct it in %s, line 3",
		},
		"no address": {
			"node: {}\n",
			"\nnode: {nodeIP: edge}\n",
			`MicroShift's configuration is not taken: node.nodeIP is "edge", which is no address: correct it in %s, line 2`,
		},
		"an alias's": {
			"a: &a {nodeIP: edge}\nnode: *a\n", "",
			`MicroShift's configuration is not taken: node.nodeIP is "edge", which is no address: correct it in %s`,
		},
		"a mapping for a key": {
			"node:\n  ? {a: b}\n  : c\n", "",
			"MicroShift's %s is not taken: it has a list or a mapping in place of a key's name: write a name",
		},
		"nothing for a key": {
			"node: {~: c}\n", "",
			"MicroShift's %s is not taken: it has the key null, which is no name: write one",
		},
		"no YAML": {
			"node:\n  a: b: c\n", "",
			"MicroShift's %s is not taken: not valid YAML: line 2: mapping values are not allowed in this context: correct it there",
		},
		"two": {
			"node: {nodeIP: edge}\ningress: {status: gone}\n", "",
			`MicroShift's configuration is not taken: node.nodeIP is "edge", which is no address: correct it in %s, line 1; ` +
				`ingress.status is "gone", and may be Managed or Removed: correct it in %s, line 2`,
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
			want := strings.ReplaceAll(tt.says, "%s", filepath.Join(dir, file))
			if err == nil || err.Error() != want {
				t.Errorf("%v, want\n%s", err, want)
			}
		})
	}
}
