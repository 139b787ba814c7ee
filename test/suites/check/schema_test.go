// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// reportSchema is the schema of the reports, which scripts of administrators rely on.
var reportSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	return jsonschema.NewCompiler().Compile("../../../docs/reference/check.schema.json")
})

// validateReport expects a report to match its schema.
func validateReport(t *testing.T, text string) {
	t.Helper()
	schema, err := reportSchema()
	must(t, err)
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	must(t, err)
	if err := schema.Validate(document); err != nil {
		t.Errorf("%v in\n%s", err, text)
	}
}
