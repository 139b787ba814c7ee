// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"math"
	"testing"
)

func TestRatio(t *testing.T) {
	// Logarithms of the ratios are 0.1 and -0.1: mean 0, standard error 0.1.
	got, err := ratio([]float64{100 * math.Exp(0.1), 200 * math.Exp(-0.1)}, []float64{100, 200})
	must(t, err)
	half := 12.7062047364 * 0.1
	want := Interval{1, math.Exp(-half), math.Exp(half)}
	for name, pair := range map[string][2]float64{
		"mean": {got.Mean, want.Mean}, "low": {got.Low, want.Low}, "high": {got.High, want.High},
	} {
		if math.Abs(pair[0]-pair[1]) > 1e-9 {
			t.Errorf("%s is %v, want %v", name, pair[0], pair[1])
		}
	}
	if !got.Contains(1) || got.Contains(0.2) {
		t.Errorf("%+v contains 1: %t, and 0.2: %t", got, got.Contains(1), got.Contains(0.2))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
