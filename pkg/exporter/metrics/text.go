// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"strconv"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// prefix is the prefix of every metric name.
const prefix = "http01_proxy_"

// ContentType is the media type of the text.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Text returns the metrics of a report in Prometheus's text format, version 0.0.4, byte for
// byte as Prometheus's client library for Go writes them
// (https://prometheus.io/docs/instrumenting/exposition_formats/).
func Text(r report.Report) string {
	all := newMetricSet(r)
	slices.SortFunc(all, func(a, b *family) int { return strings.Compare(a.name, b.name) })
	var out strings.Builder
	for _, f := range all {
		f.write(&out)
	}
	return out.String()
}

// write writes a family in the order of its labels' values, and nothing without series.
func (f *family) write(out *strings.Builder) {
	if len(f.series) == 0 {
		return
	}
	if f.kind != histogram { // its buckets are in the order of their bounds
		slices.SortFunc(f.series, func(a, b series) int { return slices.Compare(a.labels, b.labels) })
	}
	out.WriteString("# HELP " + f.name + " " + f.help + "\n# TYPE " + f.name + " " + f.kind + "\n")
	escapes := strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
	for _, s := range f.series {
		out.WriteString(f.name + s.suffix)
		separator := "{"
		for i, value := range s.labels {
			out.WriteString(separator + f.labels[i].name + `="` + escapes.Replace(value) + `"`)
			separator = ","
		}
		if len(s.labels) > 0 {
			out.WriteByte('}')
		}
		out.WriteString(" " + formatFloat(s.value) + "\n")
	}
}

func formatFloat(value float64) string { return strconv.FormatFloat(value, 'g', -1, 64) }
