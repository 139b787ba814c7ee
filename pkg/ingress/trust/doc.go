// SPDX-License-Identifier: Apache-2.0

// Package trust owns what is trusted: which certificates of a file of CAs count,
// and where that file is.
//
// The judgement is pure, so that the service, the renderer and the check give the
// same one. It leads to no connection: who verifies a peer gets the certificates
// that are left.
package trust
