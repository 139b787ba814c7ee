// SPDX-License-Identifier: Apache-2.0

package rehearsal

// For the tests of failures.
var (
	CertificateSpec = certificateSpec
	ChallengeLines  = challengeLines
)
