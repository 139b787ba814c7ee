// SPDX-License-Identifier: Apache-2.0

package trust_test

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
)

// outcome returns a bundle as text.
func outcome(b trust.Bundle) (kept, left []string) {
	for _, c := range b.Roots {
		kept = append(kept, c.Subject)
	}
	for _, l := range b.Skipped {
		left = append(left, l.String())
	}
	return kept, left
}

func TestFilterKeepsAndSkips(t *testing.T) {
	t.Parallel()
	a, b := validCA(t, "A"), validCA(t, "B")
	otherIssuer := ca("Issuer")
	sub := func(serial, reason string) string {
		return `line 1: "CN=Bad", serial ` + serial + ": " + reason
	}
	notCA := func(c *x509.Certificate) { c.IsCA, c.KeyUsage = false, 0 }
	small := rsaKey(t, 1024)
	smallRSA := block("CERTIFICATE", signed(t, ca("Bad"), nil, small.Public(), small))
	lines := strings.Count(a, "\n")
	for name, c := range map[string]struct {
		text string
		kept []string
		left []string
	}{
		"two":                   {a + b, []string{"CN=A", "CN=B"}, nil},
		"CRLF":                  {strings.ReplaceAll(a+b, "\n", "\r\n"), []string{"CN=A", "CN=B"}, nil},
		"no newline at the end": {strings.TrimRight(a, "\n"), []string{"CN=A"}, nil},
		"byte order mark":       {"\xef\xbb\xbf" + a, []string{"CN=A"}, nil},
		"text between": {
			"# A\nsubject=CN = A\n" + a + "\n\n-- B --\n" + b + "end\n",
			[]string{"CN=A", "CN=B"},
			nil,
		},
		"spaces at the lines' end": {strings.ReplaceAll(a, "\n", " \t\n"), []string{"CN=A"}, nil},
		"duplicate": {
			a + b + a,
			[]string{"CN=A", "CN=B"},
			[]string{fmt.Sprintf(`line %d: "CN=A", serial abc: duplicate of line 1`, 1+2*lines)},
		},
		"expired": {
			validCA(t, "Bad", func(c *x509.Certificate) { c.NotAfter = noon.Add(-time.Second) }) + a,
			[]string{"CN=A"},
			[]string{sub("abc", "expired on 2026-06-01 11:59 UTC")},
		},
		"not yet valid": {
			validCA(t, "Bad", func(c *x509.Certificate) { c.NotBefore = noon.Add(time.Minute) }) + a,
			[]string{"CN=A"},
			[]string{sub("abc", "not valid before 2026-06-01 12:01 UTC")},
		},
		"not a CA": {
			validCA(t, "Bad", notCA) + a,
			[]string{"CN=A"},
			[]string{sub("abc", "not a CA certificate (no CA:TRUE in the basic constraints)")},
		},
		"no basic constraints": {
			validCA(t, "Bad", notCA, func(c *x509.Certificate) { c.BasicConstraintsValid = false }) + a,
			[]string{"CN=A"},
			[]string{sub("abc", "not a CA certificate (no CA:TRUE in the basic constraints)")},
		},
		"a CA that may not sign": {
			validCA(t, "Bad", func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCRLSign }) + a,
			[]string{"CN=A"},
			[]string{sub("abc", "not a CA certificate (the key usage does not allow signing certificates)")},
		},
		"RSA 1024": {smallRSA + a, []string{"CN=A"}, []string{sub("abc", "the RSA key has fewer than 2048 bits")}},
		"SHA-1": {
			forgeableCA(t, "Bad", otherIssuer, sha1WithRSA) + a,
			[]string{"CN=A"},
			[]string{sub("abc", "signed with SHA1-RSA, which can be forged")},
		},
		"MD5": {
			forgeableCA(t, "Bad", otherIssuer, md5WithRSA) + a,
			[]string{"CN=A"},
			[]string{sub("abc", "signed with MD5-RSA, which can be forged")},
		},
		"SHA-1, self-issued": {forgeableCA(t, "Old Root", nil, sha1WithRSA), []string{"CN=Old Root"}, nil},
		"an intermediate of its issuer": {
			block("CERTIFICATE", signed(t, ca("Sub"), otherIssuer, key(t).Public(), key(t))),
			[]string{"CN=Sub"},
			nil,
		},
		"broken base64": {
			strings.Replace(a, "\nMI", "\n*I", 1) + b,
			[]string{"CN=B"},
			[]string{"line 1: invalid base64"},
		},
		"broken ASN.1": {
			block("CERTIFICATE", []byte("\x30\x03abc")) + b,
			[]string{"CN=B"},
			[]string{"line 1: not a certificate: malformed tbs certificate"},
		},
		"bytes behind the certificate": {
			block("CERTIFICATE", append(signed(t, ca("T"), nil, key(t).Public(), key(t)), 0)) + b,
			[]string{"CN=B"},
			[]string{"line 1: not a certificate: trailing data"},
		},
		"another kind": {
			block("X509 CRL", []byte("abc")) + block("TRUSTED CERTIFICATE", []byte("abc")) + b,
			[]string{"CN=B"},
			[]string{
				`line 1: a block "X509 CRL", not a CERTIFICATE`,
				`line 4: a block "TRUSTED CERTIFICATE", not a CERTIFICATE`,
			},
		},
		"headers": {
			"-----BEGIN CERTIFICATE-----\nProc-Type: 4,ENCRYPTED\n\n" + strings.SplitN(a, "\n", 2)[1] + b,
			[]string{"CN=B"},
			[]string{"line 1: header lines are not supported"},
		},
		"indented": {
			"  " + strings.ReplaceAll(strings.TrimSpace(a), "\n", "\n  ") + "\n" + b,
			[]string{"CN=B"},
			[]string{"line 1: indented: lines must begin in the first column"},
		},
		"no end, then another": {
			"-----BEGIN CERTIFICATE-----\nAAAA\n" + b,
			[]string{"CN=B"},
			[]string{"line 1: no END line before the next BEGIN line"},
		},
		"another end": {
			"-----BEGIN CERTIFICATE-----\nAAAA\n-----END X-----\n" + b,
			[]string{"CN=B"},
			[]string{"line 1: the END line does not match the BEGIN line"},
		},
		"an end alone": {
			"-----END CERTIFICATE-----\n" + b,
			[]string{"CN=B"},
			[]string{"line 1: END line without a BEGIN line"},
		},
		"a begin without its end": {
			"-----BEGIN CERTIFICATE\n" + b,
			[]string{"CN=B"},
			[]string{"line 1: the BEGIN line does not end with -----"},
		},
		"a name that is no line": {
			validCA(t, "evil\x1b[2J\nname\u202e"+strings.Repeat("x", 1000)),
			[]string{"CN=evil [2J name " + strings.Repeat("x", 180) + "…"},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bundle, err := trust.Filter([]byte(c.text), noon)
			if err != nil {
				t.Fatal(err)
			}
			kept, left := outcome(bundle)
			if diff := cmp.Diff(c.kept, kept); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.left, left); diff != "" {
				t.Errorf("left out (-want +got):\n%s", diff)
			}
			if bundle.SkippedCount != len(left) {
				t.Errorf("SkippedCount is %d", bundle.SkippedCount)
			}
		})
	}
}

func TestFilterRefuses(t *testing.T) {
	t.Parallel()
	a := validCA(t, "A")
	secret, err := x509.MarshalPKCS8PrivateKey(key(t))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Count(a, "\n")
	for name, c := range map[string]struct{ text, message string }{
		"empty":       {"", "the file is empty: "},
		"only spaces": {" \r\n\n", "the file is empty: "},
		"no block":    {"hello\n", "the file contains no certificate: "},
		"10 MiB":      {strings.Repeat("#", 10<<20), "the file is larger than 1024 KiB: "},
		"10,000":      {strings.Repeat(a, 10000), "the file is larger than 1024 KiB: "},
		"DER": {
			string(signed(t, ca("A"), nil, key(t).Public(), key(t))),
			"the file is binary (DER), not PEM: convert it: openssl x509 -inform der",
		},
		"UTF-16": {"\xff\xfe-\x00-\x00", "the file is UTF-16 text: "},
		"a private key": {a + block("PRIVATE KEY", secret), fmt.Sprintf("line %d: the file contains a private key: ",
			1+lines)},
		"an EC key, first": {block("EC PRIVATE KEY", secret) + a, "line 1: the file contains a private key: "},
		"a key, indented": {
			a + "\t" + block("RSA PRIVATE KEY", secret),
			fmt.Sprintf("line %d: the file contains a private key: ", 1+lines),
		},
		"a key, cut short": {
			a + "-----BEGIN ENCRYPTED PRIVATE KEY-----\nabc",
			fmt.Sprintf("line %d: the file contains a private key: ", 1+lines),
		},
		"a key of OpenSSH": {
			"-----BEGIN OPENSSH PRIVATE KEY-----\r\nabc\r\n-----END OPENSSH PRIVATE KEY-----\r\n",
			"line 1: the file contains a private key: ",
		},
		"a key of PGP": {
			a + "-----BEGIN PGP PRIVATE KEY BLOCK-----\nabc\n-----END PGP PRIVATE KEY BLOCK-----\n",
			fmt.Sprintf("line %d: the file contains a private key: ", 1+lines),
		},
		"a key of SSH2": {
			a + "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nabc\n",
			fmt.Sprintf("line %d: the file contains a private key: ", 1+lines),
		},
		"a key, misspelt": {
			a + "-----BEGIN RSA PRIVATE KEY -----\nabc\n-----END RSA PRIVATE KEY -----\n",
			fmt.Sprintf("line %d: the file contains a private key: ", 1+lines),
		},
		"a key, small": {
			a + "-----begin private key-----\nabc\n",
			fmt.Sprintf("line %d: the file contains a private key: ", 1+lines),
		},
		"a key, as a part": {
			a + "a private key -----BEGIN PRIVATE KEY-----abc",
			fmt.Sprintf("line %d: the file contains a private key: ", 1+lines),
		},
		"nothing left": {
			validCA(t, "Old", func(c *x509.Certificate) { c.NotAfter = noon.Add(-time.Minute) }),
			`no certificate in the file can be trusted: line 1: "CN=Old", serial abc: expired on `,
		},
		"nothing, of many": {
			strings.Repeat(block("X", nil), 20000),
			"line 5: a block \"X\", not a CERTIFICATE; and 19997 more: ",
		},
		"a begin and no end": {
			a + "-----BEGIN CERTI",
			fmt.Sprintf("line %d: the file ends inside the certificate that begins here: ", 1+lines),
		},
		"a mark, and no end": {
			a + "\xef\xbb\xbf-----BEGIN CERTI",
			fmt.Sprintf("line %d: the file ends inside the certificate that begins here: ", 1+lines),
		},
		"dashes at the end": {a + "---", fmt.Sprintf("line %d: the file ends inside", 1+lines)},
		"an end cut short":  {strings.TrimRight(a, "-\n"), "line 1: the file ends inside"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bundle, err := trust.Filter([]byte(c.text), noon)
			var rejection *trust.Rejection
			if !errors.As(err, &rejection) || !strings.Contains(err.Error(), c.message) || rejection.Remediation == "" {
				t.Fatalf("%v, want %q", err, c.message)
			}
			if len(bundle.Roots) > 0 {
				t.Errorf("refused, and %d certificates with it", len(bundle.Roots))
			}
			if len(err.Error()) > 2000 {
				t.Errorf("a message of %d bytes", len(err.Error()))
			}
		})
	}
}

// TestFilterRefusesTruncated: a valid bundle that is truncated at any byte is refused,
// or gives the complete certificates before that byte.
func TestFilterRefusesTruncated(t *testing.T) {
	t.Parallel()
	a, b := validCA(t, "A"), validCA(t, "B")
	text := a + "between\n" + b
	for at := range len(text) {
		bundle, err := trust.Filter([]byte(text[:at]), noon)
		inside := at < len(a)-1 || at > len(a)+len("between\n") && at < len(text)-1
		if inside != (err != nil) {
			t.Fatalf("cut at byte %d: %d certificates, %v", at, len(bundle.Roots), err)
		}
		var rejection *trust.Rejection
		if at > 0 && inside && (!errors.As(err, &rejection) || !rejection.Truncated) {
			t.Fatalf("cut at byte %d: %v is not marked as truncated", at, err)
		}
	}
}

// TestValidityBoundaries: the first and the last moment of a certificate belong to its validity.
func TestValidityBoundaries(t *testing.T) {
	t.Parallel()
	text := []byte(validCA(t, "A"))
	for at, valid := range map[time.Time]bool{
		noon.Add(-time.Hour - 1): false, noon.Add(-time.Hour): true, noon.Add(time.Hour): true,
		noon.Add(time.Hour + 1): false,
	} {
		if bundle, err := trust.Filter(text, at); (err == nil) != valid || (len(bundle.Roots) == 1) != valid {
			t.Errorf("at %v: %v", at, err)
		}
	}
}

// FuzzFilter: other parsers find the same certificates in the text, and a private key
// is never accepted or printed.
func FuzzFilter(f *testing.F) {
	a, b := validCA(f, "A"), validCA(f, "B")
	secret, err := x509.MarshalPKCS8PrivateKey(key(f))
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{
		a, a + b, a + a, strings.ReplaceAll(a, "\n", "\r\n"), "# A\n" + a + "\xef\xbb\xbf" + b, "\xef\xbb\xbf" + a,
		strings.ReplaceAll(a+b, "\n", `\n`), strings.ReplaceAll(a, "\n", "\r"), strings.ReplaceAll(a, "\n", " "),
		strings.TrimSpace(a) + b,
		"-----BEGIN -----\n-----END :\n" + a, a + block("PRIVATE KEY", secret), a + block("PGP PRIVATE KEY BLOCK", secret),
		a[:len(a)/2], a + b[:len(b)/2], "-----BEGIN CERTIFICATE-----\n" + a, " " + a, a + "-----END CERTIFICATE-----\n" + b,
		"-----BEGIN CERTIFICATE-----\nA: b\n\n" + strings.SplitN(a, "\n", 2)[1], block("X", nil) + b,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		bundle, err := trust.Filter(text, noon)
		if !bytes.Equal(before, text) {
			t.Fatal("the text was changed")
		}
		if (err == nil) != (len(bundle.Roots) > 0) {
			t.Fatalf("%d certificates, %v", len(bundle.Roots), err)
		}
		var rejection *trust.Rejection
		if bytes.Contains(text, []byte("PRIVATE KEY-----")) && len(text) <= trust.MaxBundle &&
			(!errors.As(err, &rejection) || rejection.Message != "the file contains a private key" || bundle.SkippedCount > 0) {
			t.Fatalf("a private key: %v", err)
		}
		others := make(map[string]bool)
		// Starting at each mark: a malformed mark before it makes the library skip it.
		for i := range text {
			if !bytes.HasPrefix(text[i:], []byte("-----BEGIN CERTIFICATE")) {
				continue
			}
			if found, _ := pem.Decode(text[i:]); found != nil {
				others[string(found.Bytes)] = true
			}
		}
		for _, c := range bundle.Roots {
			if _, err := x509.ParseCertificate(c.DER); err != nil || !others[string(c.DER)] {
				t.Errorf("kept what nobody else finds: %q, %v", c.Subject, err)
			}
		}
		for _, l := range bundle.Skipped {
			if strings.ContainsAny(l.String(), "\n\r\x1b") || len(l.String()) > 1000 || l.Line < 1 {
				t.Errorf("%q is no line of text", l)
			}
		}
	})
}
