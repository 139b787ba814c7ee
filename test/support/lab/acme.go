// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/acme"
)

// Order describes a certificate order.
type Order struct {
	Name string // the one DNS name

	// SelfCheckFrom is the node that requests the challenge before the CA validates it, as
	// cert-manager does from its pod; nil skips the self check.
	SelfCheckFrom *Node
}

// account is the ACME client with its account at the CA.
type account struct {
	*acme.Client
}

// Certificate orders a certificate with HTTP-01 as cert-manager does: it starts a solver and a
// route for the challenge, checks it, makes the CA validate it, and removes both. The
// certificate is verified up to the CA's root.
func (l *Lab) Certificate(ctx context.Context, o Order) (*x509.Certificate, error) {
	certificate, _, err := l.Obtain(ctx, o)
	return certificate, err
}

// Obtain is Certificate, and also returns the chain and the key.
func (l *Lab) Obtain(ctx context.Context, o Order) (*x509.Certificate, Identity, error) {
	client, err := l.Internet.register(ctx)
	if err != nil {
		return nil, Identity{}, err
	}
	order, err := client.AuthorizeOrder(ctx, acme.DomainIDs(o.Name))
	if err != nil {
		return nil, Identity{}, fmt.Errorf("order a certificate for %s: %w", o.Name, err)
	}
	for _, url := range order.AuthzURLs {
		if err := l.authorize(ctx, client, url, o); err != nil {
			return nil, Identity{}, fmt.Errorf("authorize %s: %w", o.Name, err)
		}
	}
	certificate, identity, err := l.Internet.finalize(ctx, client, order.URI, o.Name)
	if err != nil {
		return nil, Identity{}, err
	}
	return certificate, identity, client.deactivate(ctx, order.AuthzURLs)
}

// Deactivate deactivates authorizations of the account with a key, so that its next order
// for their names is challenged.
func (i *Internet) Deactivate(ctx context.Context, key crypto.Signer, urls []string) error {
	directory, _ := i.Directory()
	other := &account{&acme.Client{Key: key, HTTPClient: i.client, DirectoryURL: directory}}
	return other.deactivate(ctx, urls)
}

// deactivate deactivates authorizations (RFC 8555 section 7.5.2), so that the next order
// for the name is challenged again. Pebble v2.10.1 reuses one in a hundred even when
// configured not to (wfe.go, makeAuthorizations).
func (a *account) deactivate(ctx context.Context, urls []string) error {
	for _, url := range urls {
		if err := a.RevokeAuthorization(ctx, url); err != nil {
			return fmt.Errorf("deactivate an authorization: %w", err)
		}
	}
	return nil
}

// register creates the ACME account once per lab.
func (i *Internet) register(ctx context.Context) (*account, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.account != nil {
		return i.account, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("create the account's key: %w", err)
	}
	directory, _ := i.Directory()
	client := &acme.Client{Key: key, HTTPClient: i.client, DirectoryURL: directory}
	if _, err := client.Register(ctx, &acme.Account{}, acme.AcceptTOS); err != nil {
		return nil, fmt.Errorf("register with the CA: %w", err)
	}
	i.account = &account{client}
	return i.account, nil
}

// authorize solves one authorization.
func (l *Lab) authorize(ctx context.Context, client *account, url string, o Order) (err error) {
	authz, err := client.GetAuthorization(ctx, url)
	if err != nil {
		return fmt.Errorf("read the authorization: %w", err)
	}
	challenge, err := client.challenge(authz)
	if err != nil {
		return err
	}
	solver, err := l.Solve(ctx, o.Name, challenge.token, challenge.key)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, solver.Remove(context.WithoutCancel(ctx))) }()
	if o.SelfCheckFrom != nil {
		if err := o.SelfCheckFrom.selfCheck(ctx, o.Name, challenge); err != nil {
			return err
		}
	}
	// The client repeats a request whose answer was lost. The CA may have validated meanwhile.
	if _, err := client.Accept(ctx, challenge.acme); err != nil && !strings.Contains(err.Error(), "with status valid") {
		return fmt.Errorf("have the CA validate: %w", err)
	}
	return client.validated(ctx, url)
}

// challenge is the expected answer of a solver.
type challenge struct {
	acme       *acme.Challenge
	token, key string
}

// challenge selects the HTTP-01 challenge of an authorization.
func (a *account) challenge(authz *acme.Authorization) (*challenge, error) {
	for _, c := range authz.Challenges {
		if c.Type != "http-01" {
			continue
		}
		key, err := a.HTTP01ChallengeResponse(c.Token)
		if err != nil {
			return nil, fmt.Errorf("create the key authorization: %w", err)
		}
		return &challenge{acme: c, token: c.Token, key: key}, nil
	}
	return nil, errors.New("the CA offers no http-01 challenge")
}

// validated waits for the result of the CA's validation.
func (a *account) validated(ctx context.Context, url string) error {
	return Eventually(ctx, "the CA's validation", func(ctx context.Context) error {
		authz, err := a.GetAuthorization(ctx, url)
		switch {
		case err != nil:
			return fmt.Errorf("read the authorization: %w", err)
		case authz.Status == acme.StatusValid:
			return nil
		case authz.Status == acme.StatusInvalid:
			return final(caError(authz))
		default:
			return fmt.Errorf("still %s", authz.Status)
		}
	})
}

// Rejected is in the error of an order whose challenge the CA could not validate.
const Rejected = "the CA rejected the challenge"

// caError returns the CA's error.
func caError(authz *acme.Authorization) error {
	for _, c := range authz.Challenges {
		if c.Error != nil {
			return fmt.Errorf("%s: %w", Rejected, c.Error)
		}
	}
	return errors.New(Rejected + " without a reason")
}

// finalize requests the signature of the certificate and verifies it.
func (i *Internet) finalize(ctx context.Context, client *account, order, name string) (*x509.Certificate, Identity,
	error,
) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, Identity{}, fmt.Errorf("create the certificate's key: %w", err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{name}}, key)
	if err != nil {
		return nil, Identity{}, fmt.Errorf("create the signing request: %w", err)
	}
	ready, err := client.WaitOrder(ctx, order)
	if err != nil {
		return nil, Identity{}, fmt.Errorf("wait for the order: %w", err)
	}
	chain, _, err := client.CreateCertFromOrder(ctx, ready, csr, true)
	if err != nil {
		return nil, Identity{}, fmt.Errorf("have the certificate signed: %w", err)
	}
	leaf, err := i.verify(ctx, chain, name)
	if err != nil {
		return nil, Identity{}, err
	}
	identity, err := newIdentity(chain, key)
	return leaf, identity, err
}
