// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"bytes"
	"fmt"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// The limits of a file of certificates.
const (
	// MaxBundle is the limit of the administrator's file. A ConfigMap cannot contain
	// more.
	MaxBundle = 1 << 20
	// MaxSystem is the limit of the host's own file, which includes comments.
	MaxSystem = 4 << 20
	// maxDER limits the certificates, which are sent to another process in one message.
	maxDER = MaxBundle
	// maxSkipped limits the list. In a file of another kind, every line is a flaw.
	maxSkipped = 100
)

// Bundle is the result of filtering a file of certificates at a point in time.
type Bundle struct {
	Roots        []Certificate
	Skipped      []report.IgnoredCertificate // the first 100 of them
	SkippedCount int                         // number of all skipped parts
}

// Certificate is a trusted certificate.
type Certificate struct {
	DER     []byte
	Subject string // printable and short
}

// Rejection is the reason why a file is not used. It contains no content of the file
// except names of certificates.
type Rejection struct {
	Line        int // 0: the file as a whole
	Message     string
	Remediation string
	// Truncated is set for a file that ends inside a certificate: it may still be
	// written.
	Truncated bool
	// NoneTrusted is set for a file whose certificates were all skipped.
	NoneTrusted bool
}

// Error implements error.
func (r *Rejection) Error() string {
	if r.Line == 0 {
		return r.Message + ": " + r.Remediation
	}
	return fmt.Sprintf("line %d: %s: %s", r.Line, r.Message, r.Remediation)
}

// Filter checks an administrator's bundle, certificate by certificate. An error is a
// [*Rejection]. The bundle beside it contains no Roots, but lists the skipped parts.
func Filter(pem []byte, now time.Time) (Bundle, error) { return filter(pem, MaxBundle, now) }

func filter(pem []byte, limit int, now time.Time) (Bundle, error) {
	if err := checkFile(pem, limit); err != nil {
		return Bundle{}, err
	}
	blocks, err := splitBlocks(pem)
	if err != nil {
		return Bundle{}, err
	}
	if len(blocks) == 0 {
		return Bundle{}, &Rejection{
			Message:     "the file contains no certificate",
			Remediation: "add the CA certificates in PEM (-----BEGIN CERTIFICATE-----)",
		}
	}
	j := bundleFilter{now: now, seen: make(map[[32]byte]int)}
	for _, b := range blocks {
		if err := j.addBlock(b); err != nil {
			return Bundle{}, err
		}
	}
	if len(j.bundle.Roots) == 0 {
		return j.bundle, &Rejection{
			Message:     "no certificate in the file can be trusted: " + j.bundle.summarizeSkipped(),
			Remediation: "add the certificate of the CA that issued the ingress's certificate",
			NoneTrusted: true,
		}
	}
	return j.bundle, nil
}

// summarizeSkipped names the first skipped parts in one line, and counts the others.
func (b *Bundle) summarizeSkipped() string {
	return report.Trust{Ignored: b.Skipped, IgnoredTotal: b.SkippedCount}.SummarizeIgnored()
}

const (
	byteOrderMark = "\xef\xbb\xbf"
	utf16Little   = "\xff\xfe"
	utf16Big      = "\xfe\xff"
	// derSequence is the first byte of binary certificates, and of most binary
	// containers.
	derSequence = 0x30
)

func checkFile(pem []byte, limit int) error {
	switch {
	case len(pem) > limit:
		return TooLarge(limit)
	case len(bytes.TrimSpace(pem)) == 0:
		return &Rejection{
			Message:     "the file is empty",
			Remediation: "add the CA certificates, or remove the file to use the CAs of this host",
		}
	}
	if line := findPrivateKey(pem); line > 0 {
		return &Rejection{
			Line: line, Message: "the file contains a private key",
			Remediation: "remove it, and replace the key if others could read the file",
		}
	}
	switch {
	case bytes.HasPrefix(pem, []byte(utf16Little)), bytes.HasPrefix(pem, []byte(utf16Big)):
		return &Rejection{
			Message:     "the file is UTF-16 text",
			Remediation: "save it as plain text (UTF-8): iconv -f UTF-16 -t UTF-8",
		}
	case pem[0] == derSequence && !bytes.Contains(pem, []byte(beginMark)):
		return &Rejection{
			Message:     "the file is binary (DER), not PEM",
			Remediation: "convert it: openssl x509 -inform der -in FILE -out ca-bundle.crt",
		}
	}
	return nil
}

// TooLarge is the rejection of a file of more than limit bytes.
func TooLarge(limit int) *Rejection {
	return &Rejection{
		Message:     fmt.Sprintf("the file is larger than %d KiB", limit>>10),
		Remediation: "keep only the CAs that issue the ingress's certificates",
	}
}

// findPrivateKey returns the line of the first private key, or 0. It also accepts marks
// of other formats and malformed marks: a false alarm is better than a leaked key.
func findPrivateKey(text []byte) int {
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if isPrivateKeyMark(line) {
			return number
		}
	}
	return 0
}

func isPrivateKeyMark(line []byte) bool {
	if !bytes.Contains(line, []byte("--")) {
		return false
	}
	line = bytes.ToUpper(line)
	_, begun, _ := bytes.Cut(line, []byte("BEGIN"))
	return bytes.Contains(begun, []byte("PRIVATE KEY")) || bytes.Contains(line, []byte("PRIVATE KEY"+markTail))
}
