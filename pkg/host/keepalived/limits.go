// SPDX-License-Identifier: Apache-2.0

package keepalived

// Limits on the cost of reading the configuration. OpenShift's file has 4 KiB, no include and
// a nesting depth of 3.
const (
	maxFileBytes      = 1 << 20 // one file
	maxTotalBytes     = 4 << 20 // all files together
	maxFiles          = 256     // all files together
	maxIncludeDepth   = 8
	maxNesting        = 64
	maxExpandedBytes  = 4 << 20 // text produced by definitions, plus lineCost for each of its lines
	lineCost          = 16
	maxSubstitutions  = 1 << 16 // uses of definitions
	maxGlobBraces     = 64      // brace alternatives of one include
	maxInstances      = 1024
	maxInstanceDigits = 4
	maxIgnored        = 32

	// maxLine is the longest line that keepalived accepts, without comments: MAXBUF of
	// lib/parser.h minus the terminating NUL.
	maxLine = 1023
)
