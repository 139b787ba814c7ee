// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"strings"
	"testing"
	"time"
)

// printed is the output of client.c.
const printed = `bench requests 24628
bench microseconds 2000000
bench p50 3070
bench p99 8883
bench p999 13421
bench connect 1
bench read 2
bench status 20
bench timeout 4
`

func TestParseLoad(t *testing.T) {
	got, err := parseLoad(printed)
	must(t, err)
	want := load{
		requests: 24628, elapsed: 2 * time.Second, errors: 27,
		p50: 3070 * time.Microsecond, p99: 8883 * time.Microsecond, p999: 13421 * time.Microsecond,
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if rate := got.rate(); rate != (24628-27)/2.0 {
		t.Errorf("%v requests/s: errors must not count", rate)
	}
}

func TestParseLoadRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":                "",
		"a missing figure":       strings.Replace(printed, "bench p999 13421\n", "", 1),
		"not a number":           strings.Replace(printed, "13421", "nan", 1),
		"a run without duration": strings.Replace(printed, "microseconds 2000000", "microseconds 0", 1),
	} {
		if got, err := parseLoad(text); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
