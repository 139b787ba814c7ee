// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"math"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{3}, 3},
		{[]float64{9, 1, 2}, 2},
		{[]float64{4, 1, 3, 2}, 2.5},
	} {
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.values, got, c.want)
		}
	}
	values := []float64{2, 1}
	median(values)
	if values[0] != 2 {
		t.Error("median reorders the values of its caller")
	}
}

// TestStudentT compares with published tables.
func TestStudentT(t *testing.T) {
	for freedom, want := range map[int]float64{1: 12.706, 2: 4.303, 3: 3.182, 5: 2.571, 10: 2.228, 29: 2.045, 39: 2.023, 1000: 1.962} {
		got := studentT975(freedom)
		if math.Abs(got-want)/want > 0.01 || freedom >= 10 && math.Abs(got-want) > 0.001 {
			t.Errorf("with %d degrees of freedom %.4f, want %.3f", freedom, got, want)
		}
	}
}

func TestRatio(t *testing.T) {
	// Logarithms of the ratios are 0.1 and -0.1: mean 0, standard error 0.1.
	got, err := ratio([]float64{100 * math.Exp(0.1), 200 * math.Exp(-0.1)}, []float64{100, 200})
	must(t, err)
	half := 12.7062047364 * 0.1
	want := Interval{1, math.Exp(-half), math.Exp(half)}
	for name, pair := range map[string][2]float64{"mean": {got.Mean, want.Mean}, "low": {got.Low, want.Low}, "high": {got.High, want.High}} {
		if math.Abs(pair[0]-pair[1]) > 1e-9 {
			t.Errorf("%s is %v, want %v", name, pair[0], pair[1])
		}
	}
	if !got.Contains(1) || got.Contains(0.2) {
		t.Errorf("%+v contains 1: %t, and 0.2: %t", got, got.Contains(1), got.Contains(0.2))
	}
}

func TestRatioRefuses(t *testing.T) {
	for name, pair := range map[string][2][]float64{
		"one pair":      {{1}, {1}},
		"odd one out":   {{1, 2}, {1}},
		"no connection": {{1, 2}, {1, 0}},
	} {
		if got, err := ratio(pair[0], pair[1]); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
