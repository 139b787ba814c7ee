// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// RenderedConfig returns the hosts' configuration in the output folder of
// oc-http01 for the pool master.
func RenderedConfig(dir string) ([]byte, error) {
	file := filepath.Join(dir, "98-master-http01-proxyd-config.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the rendered configuration: %w", err)
	}
	var o struct {
		Spec struct {
			Config struct {
				Storage struct {
					Files []struct{ Contents struct{ Source string } }
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &o); err != nil || len(o.Spec.Config.Storage.Files) == 0 {
		return nil, fmt.Errorf("%s has no file: %w", file, err)
	}
	encoded, plain := strings.CutPrefix(o.Spec.Config.Storage.Files[0].Contents.Source, "data:,")
	if !plain {
		return nil, fmt.Errorf("%s has no file in plain text", file)
	}
	config, err := url.PathUnescape(encoded)
	return []byte(config), err
}
