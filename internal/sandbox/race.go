// SPDX-License-Identifier: Apache-2.0

//go:build race

package sandbox

// raceDetector: it maps terabytes, which no limit of data lets through.
const raceDetector = true
