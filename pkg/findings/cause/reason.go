// SPDX-License-Identifier: Apache-2.0

package cause

import (
	"strconv"
	"sync"
)

// Reason is the number of a sentence.
type Reason uint8

// The reasons, in the order of the sentences.
const (
	None Reason = iota
	System
	Timeout
	DeadlinePassed
	Closed
	EndOfStream
	UnexpectedEndOfStream
	Unknown

	PlainHTTP
	NotTLS
	Alert
	TLSVersion
	TLSFailed

	NoCertificate
	NameMismatch
	Expired
	NotYetValid
	UnknownCA
	InvalidCertificate
	UnknownExtension

	Malformed
	BadLine
	HeadTooLong
	Interim
	Framing
	Chunk
	TooLarge

	NoAddress
	NoHost
	BadHead
	ProxyAnswer
	ProxyAnswerCode

	MultipleLocations
	RedirectToHTTP
	RedirectToHTTPS
	RedirectInvalid

	InvalidRequest
	ResponseTooLong
	InvalidProxyURL
)

// sentences returns the sentence of each reason. Parameters stand in braces.
var sentences = sync.OnceValue(func() map[Reason]string { //nolint:gochecknoglobals // a table
	return map[Reason]string{
		None:                  "",
		System:                "{errno}",
		Timeout:               "timeout: no answer in time",
		DeadlinePassed:        "timeout: no time was left for this attempt",
		Closed:                "the connection was closed locally",
		EndOfStream:           "the peer closed the connection",
		UnexpectedEndOfStream: "the peer closed the connection before the end",
		Unknown:               "unspecified error",

		PlainHTTP:  "it answers in plain HTTP",
		NotTLS:     "its first bytes are not TLS",
		Alert:      "TLS alert {alert}",
		TLSVersion: "its TLS version is not supported",
		TLSFailed:  "its TLS handshake is invalid",

		NoCertificate:      "it presents no certificate",
		NameMismatch:       "{certificate} is for {names}, and not for {requested}",
		Expired:            "{certificate} has expired on {time}",
		NotYetValid:        "{certificate} is not valid before {time}",
		UnknownCA:          "{certificate} is not signed by a trusted CA; trusted: {trusted}",
		InvalidCertificate: "{certificate} is invalid: {invalid}; trusted: {trusted}",
		UnknownExtension:   "{certificate} has an unknown critical extension; trusted: {trusted}",

		Malformed:   "its answer is not HTTP/1.x",
		BadLine:     "bad status line or field line",
		HeadTooLong: "its head is longer than 16384 bytes or 128 fields",
		Interim:     "unrequested interim responses",
		Framing:     "bad Content-Length or Transfer-Encoding",
		Chunk:       "bad chunk or trailer",
		TooLarge:    "sends a body of more than 65536 bytes or 4096 chunks",

		NoAddress:       "no address is known",
		NoHost:          "the request has no host to pass to the egress proxy",
		BadHead:         "the request head cannot be rewritten for the egress proxy",
		ProxyAnswer:     "it answers {number}",
		ProxyAnswerCode: "it answers {number} ({code})",

		MultipleLocations: "{number} locations at once",
		RedirectToHTTP:    "http://{port}/...",
		RedirectToHTTPS:   "https://{port}/...",
		RedirectInvalid:   "a Location that is not an http or https URL with a host",

		InvalidRequest:  "invalid request to the prober",
		ResponseTooLong: "the result is too long for the prober protocol",
		InvalidProxyURL: "invalid URL of the proxy",
	}
})

// alertName names a TLS alert (RFC 8446 section 6).
func alertName(number int) string {
	names := map[int]string{
		0: "close notify", 10: "unexpected message", 20: "bad record MAC", 22: "record overflow", 40: "handshake failure",
		42: "bad certificate", 43: "unsupported certificate", 44: "revoked certificate", 45: "expired certificate",
		46: "unknown certificate", 47: "illegal parameter", 48: "unknown certificate authority", 49: "access denied",
		50: "error decoding message", 51: "error decrypting message", 70: "protocol version not supported",
		71: "insufficient security level",
		80: "internal error", 86: "inappropriate fallback", 90: "user canceled", 109: "missing extension",
		110: "unsupported extension",
		112: "unrecognized name", 113: "bad certificate status response", 115: "unknown PSK identity",
		116: "certificate required", 120: "no application protocol",
	}
	if name, known := names[number]; known {
		return strconv.Itoa(number) + " (" + name + ")"
	}
	return strconv.Itoa(number)
}

// invalidReason describes an InvalidReason of crypto/x509, which is number less 1.
func invalidReason(number int) string {
	names := []string{
		"its issuer is not a CA", "it is not valid now", "its CA is not permitted to issue for its names",
		"its chain is longer than a CA in it permits", "it is not a server certificate",
		"the names in its chain do not match",
		"a CA in its chain constrains names, and it has no subject alternative name",
		"one of its names cannot be checked against a CA's name constraints",
		"its name constraints require too many comparisons",
		"a CA in its chain is not permitted to issue server certificates", "no chain of it is valid",
	}
	if number < 1 || number > len(names) {
		return "verification failed"
	}
	return names[number-1]
}
