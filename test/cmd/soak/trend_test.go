// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"math/rand/v2"
	"testing"
)

func near(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance }

// TestTrend compares with a regression that was computed by hand: x = 1 to 5,
// y = 2, 4, 5, 4, 5 has slope 0.6, intercept 2.2, and the standard error of the slope
// sqrt(2.4/3/10) = 0.28284; t(3) is 3.1824.
func TestTrend(t *testing.T) {
	t.Parallel()
	s := Series{Hours: []float64{1, 2, 3, 4, 5}, Value: []float64{2, 4, 5, 4, 5}}
	got, ok := s.Trend()
	if !ok || !near(got.Slope, 0.6, 1e-9) || !near(got.Intercept, 2.2, 1e-9) ||
		!near(got.Low, 0.6-3.1824*0.28284, 1e-4) || !near(got.High, 0.6+3.1824*0.28284, 1e-4) || got.Growing(1) {
		t.Errorf("%+v, %v", got, ok)
	}
	if _, ok := s.After(3).Trend(); ok {
		t.Error("three samples have an interval")
	}
	if _, ok := (Series{Hours: []float64{1, 1, 1, 1}, Value: []float64{1, 2, 3, 4}}).Trend(); ok {
		t.Error("samples of one moment have a slope")
	}
}

// TestGrowingOfCorrelatedSamples: each deviation contains 0.7 of the last one, as the memory
// of a process between two collections. The interval is corrected for that. A leak as large as
// the deviations is still found in each.
func TestGrowingOfCorrelatedSamples(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	const rounds = 2000
	flat, leaks := 0, 0
	for range rounds {
		var still, leak Series
		deviation := 0.0
		for i := range 240 {
			hours := float64(i) / 120
			deviation = 0.7*deviation + r.NormFloat64()
			still.Add(hours, 10+deviation)
			leak.Add(hours, 10+deviation+2*hours)
		}
		if trend, _ := still.Trend(); trend.Growing(1) {
			flat++
		}
		if trend, _ := leak.Trend(); trend.Growing(1) {
			leaks++
		}
	}
	if flat < rounds/80 || flat > rounds/20 || leaks < rounds*99/100 {
		t.Errorf("of %d: %d without a trend grow, %d leaks are found", rounds, flat, leaks)
	}
}

// TestGrowingAmongMany: of 16 series without a trend, judged together, one grows in about one
// round in forty. A leak is found in each round.
func TestGrowingAmongMany(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	const rounds, series = 1000, 16
	flat, leaks := 0, 0
	for range rounds {
		grows := false
		for i := range series {
			var s Series
			for i := range 60 {
				hours := float64(i) / 30
				s.Add(hours, 10+r.NormFloat64())
			}
			trend, _ := s.Trend()
			grows = grows || trend.Growing(series)
			if i == 0 {
				for i := range s.Value {
					s.Value[i] += 3 * s.Hours[i]
				}
				if trend, _ := s.Trend(); trend.Growing(series) {
					leaks++
				}
			}
		}
		if grows {
			flat++
		}
	}
	if flat == 0 || flat > rounds/20 || leaks != rounds {
		t.Errorf("of %d rounds: in %d a series without a trend grows, in %d the leak is found", rounds, flat, leaks)
	}
}
