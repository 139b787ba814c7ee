// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/jmhodges/clock"
	"github.com/letsencrypt/boulder/bdns"
	"github.com/letsencrypt/boulder/core"
	corepb "github.com/letsencrypt/boulder/core/proto"
	"github.com/letsencrypt/boulder/identifier"
	blog "github.com/letsencrypt/boulder/log"
	"github.com/letsencrypt/boulder/metrics"
	"github.com/letsencrypt/boulder/va"
	vapb "github.com/letsencrypt/boulder/va/proto"
	"github.com/miekg/dns"
	"google.golang.org/grpc"
)

// userAgent is the User-Agent of Let's Encrypt.
const userAgent = "Mozilla/5.0 (compatible; Let's Encrypt validation server; +https://www.letsencrypt.org)"

// boulder's own configuration for tests sets 1 s and three attempts (test/config/va.json). Here one
// server gets the queries of all perspectives, on a machine that may be busy, and no query is lost.
const (
	dnsTimeout  = 15 * time.Second
	dnsAttempts = 1
)

// dnsQueries limits the queries that all perspectives have in flight. The server ends a TLS handshake
// or a query that takes longer than a second.
const dnsQueries = 8

// maxChallenges limits the challenges of one run.
const maxChallenges = 1000

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "boulder:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("boulder", flag.ContinueOnError)
	server := flags.String("dns", "", "address and port of the DNS server")
	trust := flags.String("trust", "", "file with the CA of the DNS server's certificate")
	timeout := flags.Duration("timeout", 20*time.Second, "limit of one validation")
	if err := flags.Parse(args); err != nil {
		return err
	}
	challenges, err := read(in)
	if err != nil {
		return err
	}
	primary, err := newPrimary(*server, *trust)
	if err != nil {
		return err
	}
	results := make([]result, len(challenges))
	var all sync.WaitGroup
	for i, c := range challenges {
		all.Go(func() { results[i] = validate(primary, c, *timeout) })
	}
	all.Wait()
	printed := json.NewEncoder(out)
	for _, r := range results {
		if err := printed.Encode(r); err != nil {
			return fmt.Errorf("print a result: %w", err)
		}
	}
	return nil
}

// challenge is what an ACME client prepared.
type challenge struct {
	Name  string `json:"name"`
	Token string `json:"token"`
	Key   string `json:"key"` // the key authorization
}

func read(in io.Reader) (all []challenge, err error) {
	lines := json.NewDecoder(in)
	lines.DisallowUnknownFields()
	for {
		var c challenge
		switch err := lines.Decode(&c); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("read challenge %d: %w", len(all)+1, err)
		case len(all) == maxChallenges:
			return nil, fmt.Errorf("more than %d challenges", maxChallenges)
		}
		all = append(all, c)
	}
}

// result is the outcome of one validation.
type result struct {
	Problem   string   `json:"problem"`   // the CA's text; empty when the challenge is valid
	URLs      []string `json:"urls"`      // that the primary perspective requested
	Addresses []string `json:"addresses"` // that it connected to
	Seconds   float64  `json:"seconds"`
}

func validate(primary *va.ValidationAuthorityImpl, c challenge, timeout time.Duration) result {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	begin := time.Now()
	answer, err := primary.DoDCV(ctx, &vapb.PerformValidationRequest{
		Identifier: identifier.NewDNS(c.Name).ToProto(),
		Challenge: &corepb.Challenge{
			Type: string(core.ChallengeTypeHTTP01), Status: string(core.StatusPending), Token: c.Token,
		},
		Authz:                    &vapb.AuthzMeta{Id: 1, RegID: 1},
		ExpectedKeyAuthorization: c.Key,
	})
	r := result{Seconds: time.Since(begin).Seconds()}
	if err != nil {
		r.Problem = "no result: " + err.Error()
		return r
	}
	r.Problem = answer.GetProblem().GetDetail()
	for _, record := range answer.GetRecords() {
		r.URLs = append(r.URLs, record.GetUrl())
		r.Addresses = append(r.Addresses, string(record.GetAddressUsed()))
	}
	return r
}

// newPrimary returns the primary perspective with its remote ones.
func newPrimary(server, trust string) (*va.ValidationAuthorityImpl, error) {
	pem, err := os.ReadFile(trust)
	if err != nil {
		return nil, fmt.Errorf("read the CA of the DNS server: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate", trust)
	}
	p := perspectives{
		server: server, dns: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		queries: make(chan struct{}, dnsQueries),
	}
	var remotes []va.RemoteVA
	for _, rir := range []string{"ARIN", "RIPE", "APNIC", "LACNIC", "AFRINIC"} {
		one, err := p.add("remote "+rir, rir, nil)
		if err != nil {
			return nil, err
		}
		r := remote{one}
		remotes = append(remotes, va.RemoteVA{
			RemoteClients: va.RemoteClients{VAClient: r, CAAClient: r},
			Address:       rir, Perspective: "remote " + rir, RIR: rir,
		})
	}
	return p.add(va.PrimaryPerspective, "", remotes)
}

// perspectives holds what all perspectives share.
type perspectives struct {
	server  string
	dns     *tls.Config
	queries chan struct{} // an element for each query in flight
}

func (p perspectives) add(name, rir string, remotes []va.RemoteVA) (*va.ValidationAuthorityImpl, error) {
	log := blog.StdoutLogger(0) // emergencies only
	servers, err := bdns.NewStaticProvider([]string{p.server})
	if err != nil {
		return nil, fmt.Errorf("use the DNS server %q: %w", p.server, err)
	}
	resolver := bdns.New(dnsTimeout, servers, metrics.NoopRegisterer, clock.New(), dnsAttempts, userAgent, log,
		p.dns.Clone())
	one, err := va.NewValidationAuthorityImpl(
		limited{resolver, p.queries}, remotes, userAgent, "letsencrypt.org", metrics.NoopRegisterer, clock.New(), log,
		[]string{"https://ca.example.com/acme/acct/"}, name, rir,
		func(netip.Addr) error { return nil }, 0, true, nil, 0, 0,
	)
	if err != nil {
		return nil, fmt.Errorf("create the perspective %s: %w", name, err)
	}
	return one, nil
}

// limited waits with a query until another one ends, when too many are in flight.
type limited struct {
	bdns.Client
	inFlight chan struct{}
}

// LookupA looks up IPv4 addresses.
func (l limited) LookupA(ctx context.Context, name string) (*bdns.Result[*dns.A], string, error) {
	l.inFlight <- struct{}{}
	defer func() { <-l.inFlight }()
	return l.Client.LookupA(ctx, name)
}

// LookupAAAA looks up IPv6 addresses.
func (l limited) LookupAAAA(ctx context.Context, name string) (*bdns.Result[*dns.AAAA], string, error) {
	l.inFlight <- struct{}{}
	defer func() { <-l.inFlight }()
	return l.Client.LookupAAAA(ctx, name)
}

// remote calls a remote perspective of this process.
type remote struct {
	*va.ValidationAuthorityImpl
}

// DoDCV validates a challenge.
func (r remote) DoDCV(ctx context.Context, request *vapb.PerformValidationRequest,
	_ ...grpc.CallOption,
) (*vapb.ValidationResult, error) {
	return r.ValidationAuthorityImpl.DoDCV(ctx, request)
}

// DoCAA evaluates CAA records.
func (r remote) DoCAA(ctx context.Context, request *vapb.IsCAAValidRequest,
	_ ...grpc.CallOption,
) (*vapb.IsCAAValidResponse, error) {
	return r.ValidationAuthorityImpl.DoCAA(ctx, request)
}
