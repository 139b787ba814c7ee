// SPDX-License-Identifier: Apache-2.0

//go:build race

package sandbox

// raceDetector is true: the detector maps terabytes, which exceeds every data limit.
const raceDetector = true
