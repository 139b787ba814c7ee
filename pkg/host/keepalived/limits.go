// SPDX-License-Identifier: Apache-2.0

package keepalived

// Bounds on what a reading may cost. OpenShift's file has 4 KiB, no include
// and a nesting of 3.
const (
	maxFileBytes      = 1 << 20 // one file
	maxTotalBytes     = 4 << 20 // all files of a reading
	maxFiles          = 256     // all files of a reading
	maxIncludeDepth   = 8
	maxNesting        = 64
	maxExpandedBytes  = 4 << 20 // text that came out of definitions, with lineCost for each line of it
	lineCost          = 16
	maxSubstitutions  = 1 << 16 // uses of definitions
	maxGlobBraces     = 64      // alternatives that the braces of one include stand for
	maxInstances      = 1024
	maxInstanceDigits = 4
	maxIgnored        = 32

	// maxLine is the longest line, comments apart, that keepalived takes:
	// MAXBUF of lib/parser.h less the terminating NUL.
	maxLine = 1023
)
