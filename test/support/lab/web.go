// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxBody limits the answers that the lab's own clients read.
const maxBody = 1 << 20

// Answer is an HTTP answer.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Client returns an HTTP client on the node. It uses the lab's DNS, IPv6 before IPv4, no
// proxy, and a new connection for each request. It returns redirects without following
// them.
func (n *Node) Client() *http.Client {
	return &http.Client{
		Timeout: dialTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: n.dialName},
	}
}

// dialName connects to a name and port over IPv6, and over IPv4 when that fails, as Let's
// Encrypt does (boulder, va/http.go).
func (n *Node) dialName(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("split %q: %w", address, err)
	}
	var last error
	for _, family := range []string{"ip6", "ip4"} {
		found, err := n.Resolver().LookupNetIP(ctx, family, host)
		if err != nil {
			last = err
			continue
		}
		for _, a := range found {
			conn, err := n.Dial(ctx, network, net.JoinHostPort(a.Unmap().String(), port))
			if err == nil {
				return conn, nil
			}
			last = err
		}
	}
	return nil, last
}

// Get requests a URL from the node.
func (n *Node) Get(ctx context.Context, url string) (Answer, error) { return n.GetAs(ctx, "", url) }

// GetAs is Get with a User-Agent; if it is empty, Go's client sends its own.
func (n *Node) GetAs(ctx context.Context, agent, url string) (Answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Answer{}, fmt.Errorf("build the request: %w", err)
	}
	if agent != "" {
		request.Header.Set("User-Agent", agent)
	}
	return do(n.Client(), request)
}

// Raw sends bytes to a literal address and port, and returns the received bytes until the
// other end closes.
func (n *Node) Raw(ctx context.Context, address, request string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, eventuallyTimeout)
	defer cancel()
	conn, err := n.Dial(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return "", fmt.Errorf("set the deadline of the connection: %w", err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		return "", fmt.Errorf("send to %s: %w", address, err)
	}
	answer, err := io.ReadAll(io.LimitReader(conn, maxBody))
	if err != nil {
		return string(answer), fmt.Errorf("read from %s: %w", address, err)
	}
	return string(answer), nil
}

// Serve serves HTTP on a listener, with TLS if config is set, until stop is called. stop
// closes every connection.
func Serve(listener net.Listener, config *tls.Config, handler http.Handler) (stop func() error) {
	server := &http.Server{
		Handler: handler, TLSConfig: config, ReadHeaderTimeout: time.Minute,
		// Some tests disconnect clients.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	served := make(chan error, 1)
	go func() {
		if config == nil {
			served <- server.Serve(listener)
		} else {
			served <- server.ServeTLS(listener, "", "")
		}
	}()
	return sync.OnceValue(func() error {
		err := server.Close()
		if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
			err = errors.Join(err, ended)
		}
		return err
	})
}

func do(client *http.Client, request *http.Request) (Answer, error) {
	response, err := client.Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	answer := Answer{Status: response.StatusCode, Header: response.Header, Body: string(body)}
	if err != nil {
		return answer, fmt.Errorf("read the answer to %s: %w", request.URL, err)
	}
	return answer, nil
}

func postJSON(ctx context.Context, client *http.Client, url string, body any) (Answer, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return Answer{}, fmt.Errorf("encode the request: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(text))
	if err != nil {
		return Answer{}, fmt.Errorf("build the request: %w", err)
	}
	answer, err := do(client, request)
	if err == nil && answer.Status != http.StatusOK {
		err = fmt.Errorf("%s answered %d: %s", url, answer.Status, answer.Body)
	}
	return answer, err
}
