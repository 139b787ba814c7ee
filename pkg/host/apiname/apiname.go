// SPDX-License-Identifier: Apache-2.0

package apiname

import (
	"fmt"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/internal/httpfield"
	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

const (
	externalPrefix = "api."
	internalPrefix = config.InternalAPIPrefix

	hostVariable = "KUBERNETES_SERVICE_HOST"
	maxFileBytes = 4 << 10
)

// Read returns the external name of the API from the environment file with the API's
// address. On OpenShift this is /etc/kubernetes/apiserver-url.env, mode 0644 on every
// node, with the internal name (machine-config-operator,
// templates/common/_base/files/apiserver-url-env.yaml). The external name of
// api-int.<cluster> is api.<cluster>.
func Read(path string) (string, error) {
	text, err := textfile.Read(path, maxFileBytes)
	if err != nil {
		return "", fmt.Errorf("cannot read the name of the API: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		value, is := strings.CutPrefix(strings.TrimSpace(line), hostVariable+"=")
		if !is {
			continue
		}
		name, ok := externalName(strings.Trim(value, `"'`))
		if !ok {
			return "", fmt.Errorf("cannot read the name of the API: %s has %s=%.80q, "+
				"which is neither %s<cluster> nor %s<cluster>", path, hostVariable, name, internalPrefix, externalPrefix)
		}
		return name, nil
	}
	return "", fmt.Errorf("cannot read the name of the API: %s does not set %s", path, hostVariable)
}

// externalName derives the external name; ok is false if it is no name of the API.
func externalName(name string) (external string, ok bool) {
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if cluster, is := strings.CutPrefix(name, internalPrefix); is {
		name = externalPrefix + cluster
	}
	return name, strings.HasPrefix(name, externalPrefix) && httpfield.IsHostName(name)
}
