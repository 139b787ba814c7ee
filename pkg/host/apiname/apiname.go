// SPDX-License-Identifier: Apache-2.0

package apiname

import (
	"fmt"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

const (
	externalPrefix = "api."
	internalPrefix = "api-int."

	hostVariable = "KUBERNETES_SERVICE_HOST"
	maxFileBytes = 4 << 10
)

// Read returns the API's name outside of the cluster, by the file that tells a
// node's own services where the API is. On OpenShift that is
// /etc/kubernetes/apiserver-url.env, of mode 0644 on every node, with the internal
// name (machine-config-operator, templates/common/_base/files/apiserver-url-env.yaml):
// api-int.<cluster> is api.<cluster> for those outside.
func Read(path string) (string, error) {
	text, err := textfile.Read(path, maxFileBytes)
	if err != nil {
		return "", fmt.Errorf("read the API's name: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		value, is := strings.CutPrefix(strings.TrimSpace(line), hostVariable+"=")
		if !is {
			continue
		}
		return externalName(path, strings.Trim(value, `"'`))
	}
	return "", fmt.Errorf("read the API's name: %s sets no %s", path, hostVariable)
}

func externalName(path, name string) (string, error) {
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if cluster, is := strings.CutPrefix(name, internalPrefix); is {
		name = externalPrefix + cluster
	}
	if !strings.HasPrefix(name, externalPrefix) || !config.IsHostName(name) {
		return "", fmt.Errorf("read the API's name: %s has %s=%.80q, which is neither %s<cluster> nor %s<cluster>", path, hostVariable, name, internalPrefix, externalPrefix)
	}
	return name, nil
}
