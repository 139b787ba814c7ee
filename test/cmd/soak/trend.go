// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Series is a measured value over time.
type Series struct {
	Name  string
	Unit  string
	Hours []float64 // since the start
	Value []float64
	// Grows means that the value may grow, as a journal does: it has no goal.
	Grows bool
}

// Add appends a sample.
func (s *Series) Add(hours, value float64) {
	s.Hours, s.Value = append(s.Hours, hours), append(s.Value, value)
}

// After returns the series without the samples before a time: caches fill at the start.
func (s Series) After(hours float64) Series {
	from := 0
	for from < len(s.Hours) && s.Hours[from] < hours {
		from++
	}
	s.Hours, s.Value = s.Hours[from:], s.Value[from:]
	return s
}

// Trend is the line of least squares through a series, and the 95 % confidence interval of
// its slope per hour.
type Trend struct {
	Intercept, Slope float64
	Low, High        float64

	deviation, freedom float64 // standard error of the slope, and its degrees of freedom
}

// minSamples is the smallest series with a confidence interval.
const minSamples = 4

// Trend returns the trend, or false for a series that is too short. Consecutive samples of
// memory resemble each other, which an ordinary interval ignores: it is too narrow, and
// reports growth of a value that does not grow. Therefore the interval uses the number of independent
// samples that have as much information (Santer et al. 2000, JGR 105, 7337, equation 6).
func (s Series) Trend() (Trend, bool) {
	n := float64(len(s.Value))
	if len(s.Value) < minSamples {
		return Trend{}, false
	}
	// The sum of equal values is exact, so that a constant has a slope of exactly 0.
	var meanX, meanY float64
	for i := range s.Value {
		meanX += s.Hours[i]
		meanY += s.Value[i]
	}
	meanX, meanY = meanX/n, meanY/n
	var xx, xy, residual float64
	for i := range s.Value {
		dx := s.Hours[i] - meanX
		xx += dx * dx
		xy += dx * (s.Value[i] - meanY)
	}
	if xx == 0 {
		return Trend{}, false
	}
	t := Trend{Slope: xy / xx}
	t.Intercept = meanY - t.Slope*meanX
	var last, product float64
	for i := range s.Value {
		e := s.Value[i] - t.Intercept - t.Slope*s.Hours[i]
		residual += e * e
		product += e * last
		last = e
	}
	freedom := n - 2
	if product > 0 {
		correlation := product / residual // of consecutive deviations
		freedom = max(math.Floor(n*(1-correlation)/(1+correlation))-2, 1)
	}
	t.freedom, t.deviation = freedom, math.Sqrt(residual/freedom/xx)
	t.Low, t.High = t.interval(1)
	return t, true
}

// interval returns the interval that, for so many series without a trend, contains all slopes
// with a probability of 95 % (Bonferroni's correction).
func (t Trend) interval(series int) (low, high float64) {
	student := distuv.StudentsT{Sigma: 1, Nu: t.freedom}
	half := student.Quantile(1-0.025/float64(series)) * t.deviation
	return t.Slope - half, t.Slope + half
}

// Growing reports whether the slope is above 0. The confidence is 95 % for all of a number of
// series that are judged together.
func (t Trend) Growing(series int) bool {
	low, _ := t.interval(series)
	return low > 0
}

// String returns the slope and its interval.
func (t Trend) String() string {
	return fmt.Sprintf("%+.3g per hour (95 %%: %+.3g to %+.3g)", t.Slope, t.Low, t.High)
}
