// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"fmt"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/test/suites/chaos/model"
)

// replay prints a sequence as a test.
func replay(seed uint64, faults []model.Fault) string {
	var b strings.Builder
	fmt.Fprintf(&b,
		"func TestSeed%d(t *testing.T) {\n\twithHost(t, func(ctx context.Context, h *host) {\n\t\th.expect(ctx, t,\n", seed)
	for _, f := range faults {
		fmt.Fprintf(&b, "\t\t\tmodel.Fault{%s},\n", literal(f))
	}
	b.WriteString("\t\t)\n\t})\n}\n")
	return b.String()
}

// literal returns the fields of a fault in Go.
func literal(f model.Fault) string {
	fields := []string{"Kind: model." + string(f.Kind)}
	for _, field := range []struct {
		name  string
		value any
		set   bool
	}{
		{"VIP", f.VIP, f.VIP != 0},
		{"Link", f.Link, f.Link != 0},
		{"N", f.N, f.N != 0},
		{"Variant", f.Variant, f.Variant != 0},
		{"File", fmt.Sprintf("%q", f.File), f.File != ""},
		{"Mode", fmt.Sprintf("%q", f.Mode), f.Mode != ""},
		{"Pause", int64(f.Pause), f.Pause != 0},
	} {
		if field.set {
			fields = append(fields, fmt.Sprintf("%s: %v", field.name, field.value))
		}
	}
	return strings.Join(fields, ", ")
}
