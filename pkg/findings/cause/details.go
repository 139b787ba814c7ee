// SPDX-License-Identifier: Apache-2.0

package cause

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/httpfield"
)

// The bounds of [Details].
const (
	MaxNames      = 4
	MaxMore       = 1 << 16
	maxCommonName = 64 // ub-common-name of RFC 5280
	maxCode       = 40
	maxErrno      = 4095
	LastTime      = 253402300799 // the end of the year 9999
	lastHeader    = 2
)

// Details is the reason of a failure, with the parameters of its sentence. A parameter
// that the sentence does not take is invalid. The zero value is an empty sentence.
//
// Issuer and Subject come from a certificate. They are part of the finding, and
// therefore data: letters, digits, spaces and a few other characters within 64 bytes,
// quoted behind "the certificate" and "issued by".
type Details struct {
	Reason      Reason   `json:"reason,omitzero"`
	Number      int      `json:"number,omitzero"`  // an error number, a TLS alert, a status, a port, or a count
	Code        string   `json:"code,omitzero"`    // error code of an egress proxy: letters, digits, "-" and "_"
	Names       []string `json:"names,omitempty"`  // host names and addresses
	More        int      `json:"more,omitzero"`    // number of further names
	Subject     string   `json:"subject,omitzero"` // common name of a certificate
	Issuer      string   `json:"issuer,omitzero"`
	Time        int64    `json:"time,omitzero"`        // in seconds since 1970
	ProxyHeader int      `json:"proxyHeader,omitzero"` // version of the PROXY protocol header that was sent
}

// Error returns the sentence. A child process returns Details as its error.
func (w Details) Error() string { return w.Text(Context{}) }

// Text returns the sentence with the texts of the reader.
func (w Details) Text(c Context) string {
	if w.Reason == NoAddress && c.ProxyLookupError != "" {
		return c.ProxyLookupError
	}
	text := strings.NewReplacer(
		"{errno}", syscall.Errno(max(0, w.Number)).Error(),
		"{alert}", alertName(w.Number),
		"{number}", strconv.Itoa(w.Number),
		"{invalid}", invalidReason(w.Number),
		"{code}", w.Code,
		"{names}", w.nameList(),
		"{port}", w.authority(),
		"{certificate}", w.certificate(),
		"{time}", time.Unix(w.Time, 0).UTC().Format("2006-01-02 15:04 MST"),
		"{requested}", c.requestedNames(),
		"{trusted}", cmp.Or(c.TrustedCAs, "no CA"),
	).Replace(sentences()[w.Reason])
	if w.ProxyHeader != 0 {
		text += fmt.Sprintf(", after a header of the PROXY protocol (upstream.proxyProtocol: v%d), "+
			"which it may not expect", w.ProxyHeader)
	}
	return text
}

// Is reports whether the reason is this error of the system.
func (w Details) Is(err error) bool {
	number, is := err.(syscall.Errno)
	return is && w.Reason == System && w.Number == int(number)
}

// IsZero reports whether there is no reason.
func (w Details) IsZero() bool { return w.Reason == None }

// Validate rejects a reason without a sentence, and parameters that its sentence does
// not take.
func (w Details) Validate() error {
	template, known := sentences()[w.Reason]
	if !known {
		return fmt.Errorf("%w: an unknown reason", ErrInvalid)
	}
	takes := func(places ...string) bool {
		return slices.ContainsFunc(places, func(p string) bool { return strings.Contains(template, p) })
	}
	switch {
	case w.Number != 0 && !takes("{errno}", "{alert}", "{port}", "{number}", "{invalid}"),
		w.Code != "" && !takes("{code}"),
		(len(w.Names) > 0 || w.More != 0) && !takes("{names}", "{port}"),
		(w.Subject != "" || w.Issuer != "") && !takes("{certificate}"),
		w.Time != 0 && !takes("{time}"):
		return fmt.Errorf("%w: a parameter that its sentence has no place for", ErrInvalid)
	}
	return w.validateValues()
}

func (w Details) validateValues() error {
	switch {
	case w.Number < 0 || w.Number > 1<<16, w.Reason == System && (w.Number < 1 || w.Number > maxErrno):
		return fmt.Errorf("%w: number %d", ErrInvalid, w.Number)
	case w.Code != "" && !IsCode(w.Code):
		return fmt.Errorf("%w: a code with other characters", ErrInvalid)
	case len(w.Names) > MaxNames || w.More < 0 || w.More > MaxMore:
		return fmt.Errorf("%w: %d names and %d more", ErrInvalid, len(w.Names), w.More)
	case slices.ContainsFunc(w.Names, func(n string) bool { return !IsHostname(n) }):
		return fmt.Errorf("%w: a name that no host has", ErrInvalid)
	case w.Subject != "" && !IsCommonName(w.Subject), w.Issuer != "" && !IsCommonName(w.Issuer):
		return fmt.Errorf("%w: a common name with other characters", ErrInvalid)
	case w.Time < 0 || w.Time > LastTime, w.ProxyHeader < 0 || w.ProxyHeader > lastHeader:
		return fmt.Errorf("%w: a time or a version out of range", ErrInvalid)
	}
	return nil
}

// IsHostname reports whether s is a host name, whose first label may be an asterisk, or an address
// without a zone.
func IsHostname(s string) bool {
	if addr, err := netip.ParseAddr(s); err == nil {
		return addr.Zone() == ""
	}
	return httpfield.IsHostName(strings.ToLower(strings.TrimPrefix(s, "*.")))
}

// IsCommonName reports whether s may be shown as the common name of a certificate.
func IsCommonName(s string) bool {
	return s != "" && len(s) <= maxCommonName && consistsOf(s, " -_.@*()'")
}

// IsCode reports whether s is an error code, such as ERR_ACCESS_DENIED or dns_timeout.
func IsCode(s string) bool { return s != "" && len(s) <= maxCode && consistsOf(s, "-_") }

// consistsOf reports whether s consists of ASCII letters and digits, and of marks.
func consistsOf(s, marks string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		return !letter && (c < '0' || c > '9') && !strings.ContainsRune(marks, c)
	})
}

func (w Details) certificate() string {
	text := "the certificate"
	if w.Subject != "" {
		text += " " + strconv.Quote(w.Subject) + ","
	}
	if w.Issuer != "" {
		text += " issued by " + strconv.Quote(w.Issuer) + ","
	}
	return text
}

func (w Details) nameList() string {
	text := quoted(w.Names)
	switch {
	case text == "" && w.More == 0:
		return "no name"
	case text == "":
		return fmt.Sprintf("%d names that no host has", w.More)
	case w.More > 0:
		return fmt.Sprintf("%s and %d more", text, w.More)
	default:
		return text
	}
}

// authority returns a host and its port, as in a URL.
func (w Details) authority() string {
	host := strings.Join(w.Names[:min(1, len(w.Names))], "")
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if w.Number != 0 {
		host += ":" + strconv.Itoa(w.Number)
	}
	return host
}

func quoted(names []string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = strconv.Quote(name)
	}
	return strings.Join(all, ", ")
}

func (c Context) requestedNames() string {
	text := "the request, which has no name,"
	if c.Host != "" {
		text = strconv.Quote(c.Host)
	}
	if len(c.VerifyNames) == 0 {
		return text
	}
	text += " and " + quoted(c.VerifyNames[:min(len(c.VerifyNames), MaxNames)])
	if more := len(c.VerifyNames) - MaxNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// DetailsOf converts an error of the system or of this package, in a child process.
// Errors of TLS are converted by the packages that use TLS.
func DetailsOf(err error) Details {
	var details Details
	var number syscall.Errno
	switch {
	case err == nil:
		return Details{}
	case errors.As(err, &details):
		return details
	case errors.As(err, &number):
		return Details{Reason: System, Number: int(number)}
	case IsTimeout(err):
		return Details{Reason: Timeout}
	case errors.Is(err, net.ErrClosed), errors.Is(err, context.Canceled):
		return Details{Reason: Closed}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrNoProgress):
		return Details{Reason: EndOfStream}
	default:
		return Details{Reason: Unknown}
	}
}

// IsTimeout reports whether an error is that of a deadline.
func IsTimeout(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}
