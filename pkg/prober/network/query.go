// SPDX-License-Identifier: Apache-2.0

package network

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/beevik/ntp"

	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/upstream"
)

// fetchCertificate returns the certificate that a server presents. It sends no request
// over the connection, so that the server's identity does not matter.
func fetchCertificate(ctx context.Context, q *protocol.CertificateRequest) (*protocol.Certificate, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", q.Addr.String())
	if err != nil {
		return nil, fmt.Errorf("connect to %v: %w", q.Addr, err)
	}
	defer conn.Close()
	secure := unverifiedTLS(conn, q.Name) // the certificate is the result, verified or not
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, upstream.ExplainTLS(err)
	}
	leaf := secure.ConnectionState().PeerCertificates[0]
	return &protocol.Certificate{
		Issuer: issuerName(leaf.Issuer), Serial: leaf.SerialNumber.Text(16),
		NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter,
		CoversName: q.Name != "" && leaf.VerifyHostname(q.Name) == nil,
		Names:      leaf.DNSNames,
	}, nil
}

// issuerName returns the name of an issuer: usually its common name.
func issuerName(n pkix.Name) string {
	return cmp.Or(n.CommonName, strings.Join(n.Organization, " "), n.String())
}

// queryClock queries an NTP server, and again when no reply arrives.
func queryClock(ctx context.Context, q *protocol.ClockRequest) (*protocol.ClockResult, error) {
	o := ntp.QueryOptions{Timeout: time.Second, Dialer: func(_, remote string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", remote)
	}}
	for {
		response, err := ntp.QueryWithOptions(q.Addr.String(), o)
		if err == nil {
			err = response.Validate()
		}
		if err == nil {
			return &protocol.ClockResult{Offset: response.ClockOffset}, nil
		}
		if deadline, bounded := ctx.Deadline(); ctx.Err() != nil || !bounded || time.Until(deadline) < o.Timeout {
			return nil, fmt.Errorf("query %v: %w", q.Addr, err)
		}
	}
}

// queryTimeout bounds one query: a packet may get lost, and Go's resolver waits for 5 s
// before it sends another.
const queryTimeout = time.Second

// Error texts of Go's resolver (net, checkHeader and tryOneName).
const (
	// serverMisbehaving is an answer with an error.
	serverMisbehaving = "server misbehaving"
	// lameReferral is an empty answer of a server that serves no zone for the name and does not
	// recurse: it contains no record.
	lameReferral = "lame referral"
)

// lookupName queries one server for both address families. The resolver cannot open its files
// here and treats them as absent.
func lookupName(ctx context.Context, q *protocol.LookupRequest) *protocol.LookupResult {
	var found protocol.LookupResult
	var both sync.WaitGroup
	for i, family := range []string{"ip4", "ip6"} {
		both.Go(func() {
			found.Records[i] = lookupFamily(ctx, q, family, false)
			if found.Records[i].Failure == protocol.ServerError && isBogus(ctx, q, family) {
				found.Records[i].Failure = protocol.ServerBogus
			}
		})
	}
	both.Wait()
	return &found
}

// isBogus reports whether a server that answered with an error rejects the signatures of the name: it answers a
// query that disables its validation, and then rejects the name again. Only a server that validates does that.
func isBogus(ctx context.Context, q *protocol.LookupRequest, family string) bool {
	return lookupFamily(ctx, q, family, true).Failure == "" &&
		lookupFamily(ctx, q, family, false).Failure == protocol.ServerError
}

func lookupFamily(ctx context.Context, q *protocol.LookupRequest, family string, unchecked bool) protocol.Record {
	for {
		found, err := lookupOnce(ctx, q, family, unchecked)
		var failed *net.DNSError
		switch {
		case err == nil:
			return protocol.Record{Addresses: found}
		case errors.As(err, &failed) && (failed.IsNotFound || failed.Err == lameReferral):
			return protocol.Record{}
		case errors.As(err, &failed) && failed.Err == serverMisbehaving:
			return protocol.Record{Failure: protocol.ServerError}
		case ctx.Err() != nil || failed == nil || !failed.IsTimeout:
			return protocol.Record{Failure: protocol.ServerSilent}
		}
	}
}

func lookupOnce(ctx context.Context, q *protocol.LookupRequest, family string, unchecked bool) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, q.Server.String())
		if datagrams, ok := conn.(*net.UDPConn); ok && unchecked {
			return uncheckedConn{datagrams}, err
		}
		return conn, err
	}}
	// The final dot disables search domains.
	list, err := resolver.LookupNetIP(ctx, family, strings.TrimSuffix(q.Name, ".")+".")
	if err != nil {
		return nil, err
	}
	for i := range list {
		list[i] = list[i].Unmap()
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return list[:min(len(list), protocol.MaxAddresses)], nil
}

// uncheckedConn sets the flag CD (checking disabled; RFC 4035, section 3.2.2) in each query.
type uncheckedConn struct{ *net.UDPConn }

func (c uncheckedConn) Write(query []byte) (int, error) {
	const flags, checkingDisabled = 3, 1 << 4 // the second byte of the flags (RFC 2535, section 6.1)
	query = bytes.Clone(query)
	query[flags] |= checkingDisabled
	return c.UDPConn.Write(query)
}
