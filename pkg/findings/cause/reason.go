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
	LineEnd
	NotHTTP
	StatusLine
	StatusCode
	TooManyFields
	FieldLine
	TrailerFraming
	LengthSyntax
	LengthRange
	LengthRepeated
	LengthAndCoding
	TransferCoding
	TooManyInterim
	SwitchingProtocols
	HeadTooLong
	ChunkLineTooLong
	ChunkLineEnd
	ChunkSize
	ChunkExtension
	ChunkEnd
	TrailersTooLong
	Trailer
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
	NoEthernet
	InvalidProxyURL
)

// sentences returns the sentence of each reason. Parameters stand in braces.
var sentences = sync.OnceValue(func() map[Reason]string { //nolint:gochecknoglobals // a table
	return map[Reason]string{
		None:                  "",
		System:                "{errno}",
		Timeout:               "timeout: there was no answer in time",
		DeadlinePassed:        "timeout: the budget was used up before",
		Closed:                "the connection was closed here",
		EndOfStream:           "it ended the connection",
		UnexpectedEndOfStream: "it ended the connection in the middle",
		Unknown:               "an error of another kind",

		PlainHTTP:  "it answers in plain HTTP",
		NotTLS:     "what it says is not TLS",
		Alert:      "TLS alert {alert}",
		TLSVersion: "its version of TLS is not supported",
		TLSFailed:  "its handshake is not as TLS has it",

		NoCertificate:      "it presents no certificate",
		NameMismatch:       "{certificate} is for {names}, and not for {asked}",
		Expired:            "{certificate} has expired on {time}",
		NotYetValid:        "{certificate} is valid from {time} only",
		UnknownCA:          "{certificate} leads to none of {trusted}",
		InvalidCertificate: "{certificate} is refused, since {invalid}; trusted: {trusted}",
		UnknownExtension:   "{certificate} is refused, since it has a critical extension that is not known; trusted: {trusted}",

		Malformed:          "it is not one HTTP/1.x answer",
		LineEnd:            "a line does not end in CRLF",
		NotHTTP:            "it does not begin with HTTP/1.x",
		StatusLine:         "bad status line",
		StatusCode:         "bad status code {number}",
		TooManyFields:      "more than 128 fields",
		FieldLine:          "bad field line",
		TrailerFraming:     "framing announced in a trailer",
		LengthSyntax:       "bad Content-Length",
		LengthRange:        "Content-Length out of range",
		LengthRepeated:     "repeated Content-Length",
		LengthAndCoding:    "both Content-Length and Transfer-Encoding",
		TransferCoding:     "unusable Transfer-Encoding",
		TooManyInterim:     "more than 8 interim answers",
		SwitchingProtocols: "it switches protocols, which was not asked for",
		HeadTooLong:        "its head is longer than 16384 bytes",
		ChunkLineTooLong:   "a chunk's line is too long",
		ChunkLineEnd:       "a chunk's line does not end in CRLF",
		ChunkSize:          "bad chunk size",
		ChunkExtension:     "bad chunk extension",
		ChunkEnd:           "a chunk does not end where its size says",
		TrailersTooLong:    "the trailers are too long",
		Trailer:            "bad trailer",
		TooLarge:           "sends a body of more than 65536 bytes",

		NoAddress:       "it has no address",
		NoHost:          "the request names no host for the egress proxy to ask",
		BadHead:         "the request's head is not in the form for a proxy to be made of",
		ProxyAnswer:     "it answers {status}",
		ProxyAnswerCode: "it answers {status} ({code})",

		MultipleLocations: "{number} places at once",
		RedirectToHTTP:    "http://{port}/...",
		RedirectToHTTPS:   "https://{port}/...",
		RedirectInvalid:   "a Location that is no URL of http or https with a host",

		InvalidRequest:  "the question cannot be asked",
		ResponseTooLong: "the answer is too long to be handed over",
		NoEthernet:      "the link has no Ethernet address",
		InvalidProxyURL: "invalid URL of the proxy",
	}
})

// alertName names a TLS alert (RFC 8446 section 6).
func alertName(number int) string {
	names := map[int]string{
		0: "close notify", 10: "unexpected message", 20: "bad record MAC", 22: "record overflow", 40: "handshake failure",
		42: "bad certificate", 43: "unsupported certificate", 44: "revoked certificate", 45: "expired certificate",
		46: "unknown certificate", 47: "illegal parameter", 48: "unknown certificate authority", 49: "access denied",
		50: "error decoding message", 51: "error decrypting message", 70: "protocol version not supported", 71: "insufficient security level",
		80: "internal error", 86: "inappropriate fallback", 90: "user canceled", 109: "missing extension", 110: "unsupported extension",
		112: "unrecognized name", 113: "bad certificate status response", 115: "unknown PSK identity", 116: "certificate required", 120: "no application protocol",
	}
	if name, known := names[number]; known {
		return strconv.Itoa(number) + " (" + name + ")"
	}
	return strconv.Itoa(number)
}

// statusText names an HTTP status with which proxies answer themselves.
func statusText(number int) string {
	names := map[int]string{
		302: "Found", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed", 407: "Proxy Authentication Required",
		429: "Too Many Requests", 500: "Internal Server Error", 501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout",
	}
	if name, known := names[number]; known {
		return strconv.Itoa(number) + " " + name
	}
	return strconv.Itoa(number)
}

// invalidReason describes an InvalidReason of crypto/x509, which is number less 1.
func invalidReason(number int) string {
	names := []string{
		"it was issued by a certificate that may issue none", "it is not valid now", "its CA may not issue for its names", "its chain is longer than a CA in it allows",
		"it is not for servers", "the names in its chain do not match", "a CA in its chain constrains names, and it has none", "a name in it cannot be constrained",
		"it takes too many comparisons with the constraints of its CAs", "a CA in its chain may not issue for servers", "no chain of it is valid",
	}
	if number < 1 || number > len(names) {
		return "it cannot be verified"
	}
	return names[number-1]
}
