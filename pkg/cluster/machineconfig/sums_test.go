// SPDX-License-Identifier: Apache-2.0

package machineconfig_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
)

func TestSums(t *testing.T) {
	t.Parallel()
	other := strings.Repeat("f", 64)
	const prefix = "HTTP01_PROXYD_SHA256_"
	for name, tt := range map[string]struct {
		text string
		want map[string]string
		err  string
	}{
		"all four": {
			sum + "  http01-proxyd-linux-amd64\n" + other + "  http01-proxyd-linux-arm64\n" + sum +
				"  http01-proxyd-linux-ppc64le\n" + sum + "  http01-proxyd-linux-s390x\n",
			map[string]string{prefix + "X86_64": sum, prefix + "AARCH64": other, prefix + "PPC64LE": sum, prefix + "S390X": sum},
			"",
		},
		"among others": {
			"# a release\n" + other + "  sbom.json\n\n" + sum + "  http01-proxyd-linux-arm64\n",
			map[string]string{prefix + "AARCH64": sum},
			"",
		},
		"other forms": {
			strings.ToUpper(other) + " *./dist/http01-proxyd-linux-amd64\r\n",
			map[string]string{prefix + "X86_64": other},
			"",
		},
		"twice alike": {
			sum + "  a/http01-proxyd-linux-amd64\n" + sum + "  b/http01-proxyd-linux-amd64",
			map[string]string{prefix + "X86_64": sum},
			"",
		},
		"twice": {
			sum + "  http01-proxyd-linux-amd64\n" + other + "  http01-proxyd-linux-amd64", nil,
			"S: http01-proxyd-linux-amd64 has two different checksums: keep the checksum of the image's binary",
		},
		"others alone": {
			sum + "  http01-proxyd\nsha256:" + sum + "  http01-proxyd-linux-amd64\n" + sum[1:] +
				"  http01-proxyd-linux-arm64\n", nil,
			"S: has no checksum of a binary: give a file with lines of sha256sum for binaries such as http01-proxyd-linux-amd64",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := machineconfig.ParseSums(machineconfig.Input{Name: "S", Text: []byte(tt.text)})
			message := ""
			if err != nil {
				got, message = nil, err.Error()
			}
			if diff := cmp.Diff(tt.err, message); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
