// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"testing"

	sigsyaml "sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/layout"
)

// TestClusterLabel: the label of a cluster is a string, also if its name looks like another type.
func TestClusterLabel(t *testing.T) {
	t.Parallel()
	for _, cluster := range []string{"paris1", "007", "1e3", "0x1f", "true", "null"} {
		files, err := layout.Overlay(layout.RHACM, cluster, "config.yaml", false)
		if err != nil {
			t.Fatal(err)
		}
		var generator struct {
			PolicyDefaults struct {
				Placement struct {
					LabelSelector struct {
						MatchLabels map[string]any
					}
				}
			}
		}
		if err := sigsyaml.Unmarshal(files[1].Text, &generator); err != nil {
			t.Fatal(err)
		}
		if got := generator.PolicyDefaults.Placement.LabelSelector.MatchLabels["http01-proxyd-config"]; got != cluster {
			t.Errorf("%s: %#v", cluster, got)
		}
	}
}
