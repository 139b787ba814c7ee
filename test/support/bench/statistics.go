// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// median returns the median of values without reordering them, or 0 for none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// Interval is an estimate with its 95 % interval.
type Interval struct {
	Mean, Low, High float64
}

// HalfWidth returns half of the interval's width.
func (i Interval) HalfWidth() float64 { return (i.High - i.Low) / 2 }

// Contains reports whether a value is in the interval.
func (i Interval) Contains(v float64) bool { return i.Low <= v && v <= i.High }

// ratio estimates the ratio of with to without from pairs of values. It applies Student's t
// to the logarithms of the pairs' ratios, where the error is symmetrical.
func ratio(with, without []float64) (Interval, error) {
	n := len(with)
	if n < 2 || n != len(without) {
		return Interval{}, errors.New("a ratio's interval needs at least two pairs")
	}
	logs := make([]float64, n)
	mean := 0.0
	for i := range with {
		if with[i] <= 0 || without[i] <= 0 {
			return Interval{}, errors.New("a value of a pair is not positive")
		}
		logs[i] = math.Log(with[i] / without[i])
		mean += logs[i] / float64(n)
	}
	square := 0.0
	for _, v := range logs {
		square += (v - mean) * (v - mean)
	}
	student := distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}
	half := student.Quantile(0.975) * math.Sqrt(square/float64(n-1)/float64(n))
	return Interval{math.Exp(mean), math.Exp(mean - half), math.Exp(mean + half)}, nil
}
