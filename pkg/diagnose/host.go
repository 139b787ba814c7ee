// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/discovery"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/unit"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/ownership"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
	"github.com/http01-proxyd/http01-proxyd/pkg/report/client"
)

// Options are the settings of the command line.
type Options struct {
	config.HostPaths

	ProxyEnvFile string // environment file with the cluster's egress proxy
	ChronyConf   string // lists the time servers
	Kubeconfig   string // of this node; contains the API's name
	APIName      string // name of the API; empty: detected
	Token        string // of a challenge to trace; empty: none
}

// Validate rejects a name or token that must not become part of a request.
func (o Options) Validate() error {
	switch {
	case o.Token != "" && !tokenPattern().MatchString(o.Token):
		return fmt.Errorf("token %q: only letters, digits, - and _ are allowed (see spec.token in oc get challenge -A -o yaml)", o.Token)
	case o.APIName != "" && (!config.IsHostName(o.APIName) || len(withoutAddresses([]string{o.APIName})) == 0):
		return fmt.Errorf("name %q: not a host name in lower case without port, such as api.cluster.example.com", o.APIName)
	default:
		return nil
	}
}

// tokenPattern is base64url (RFC 8555 section 8.3), longer than the token of any CA.
func tokenPattern() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,256}$`) }

// withoutAddresses removes IP addresses. The configuration's hosts may contain them,
// but the DNS has no records for them.
func withoutAddresses(hosts []string) []string {
	return slices.DeleteFunc(slices.Clone(hosts), func(host string) bool {
		_, err := netip.ParseAddr(host)
		return err == nil
	})
}

// host is the state of this host that was collected before the checks start. The checks
// only read it.
type host struct {
	Options
	name            string
	privileged      bool          // can read the kernel's tables and other users' processes
	config          config.Config // from the file; if that is invalid, the last accepted one, or the defaults
	configErr       error         // why the file is invalid
	vips            keepalived.VIPs
	vipsErr         error             // why there are no VIPs
	lastGoodInForce bool              // the VIPs are the last good ones of the service, despite vipsErr
	addresses       []address.Address // of this host
	addressErr      error             // why the addresses are unknown
	ownership       ownership.Decision
	internalVIPs    []netip.Addr    // configured VIPs that are internal addresses of MicroShift's API server and not redirected
	microShiftState microShiftState // MicroShift on this host
	names           []string        // of the API, as far as known without network requests
	prober          *prober.Client  // set by withNetwork
	observed        *observations   // set by withNetwork
	unit            func() (systemd.Unit, error)
	fetchReport     func() (report.Report, error)     // queries the service, each time
	report          func() (report.Report, error)     // the first report of the service, requested after the addresses were read
	readAddresses   func() ([]address.Address, error) // reads the addresses of this host, each time
	stillUnnoticed  func() []netip.Addr               // see findStillUnnoticed
}

// serviceState is reason and message that the running service reports; empty if it does
// not respond.
func (h *host) serviceState() (report.Reason, string) {
	reported, err := h.report()
	if err != nil {
		return "", ""
	}
	return reported.Condition().Reason, reported.Condition().Message
}

// inspectHost collects the state that the checks share.
func inspectHost(ctx context.Context, o Options) (*host, error) {
	h := &host{Options: o, privileged: hasNetAdmin()}
	var err error
	if h.name, err = os.Hostname(); err != nil {
		return nil, fmt.Errorf("cannot read the host name: %w", err)
	}
	h.loadConfig()
	h.vips, h.vipsErr = discovery.VIPs(ctx, discovery.ManifestDirs{Active: o.ManifestDir, Disabled: o.DisabledManifestDir}, h.config.VIPs)
	h.readAddresses = address.List
	h.addresses, h.addressErr = h.readAddresses()
	h.loadMicroShift(ctx)
	fetchReport := func() (report.Report, error) {
		ctx, cancel := context.WithTimeout(ctx, statusTimeout)
		defer cancel()
		return client.Fetch(ctx, o.StatusSocket)
	}
	first := sync.OnceValues(fetchReport)
	go func() { _, _ = first() }()
	h.fetchReport, h.report = fetchReport, first
	h.useLastGoodVIPs()
	h.ownership = h.decideOwnership()
	h.stillUnnoticed = sync.OnceValue(func() []netip.Addr { return h.findStillUnnoticed(ctx) })
	h.names = withoutAddresses(h.config.Hosts)
	if len(h.names) == 0 && h.microShiftState.active {
		h.names = h.microShiftChallengeNames()
	}
	if o.APIName != "" {
		h.names = []string{o.APIName}
	}
	h.unit = sync.OnceValues(func() (systemd.Unit, error) {
		ctx, cancel := context.WithTimeout(ctx, unitTimeout)
		defer cancel()
		return systemd.QueryUnit(ctx, unit.Name)
	})
	return h, nil
}

// withNetwork returns the host with access to the network. Its observations are complete
// but not started.
func (h *host) withNetwork(ctx context.Context, client *prober.Client) *host {
	connected := *h
	connected.prober = client
	connected.observed = newObservations(ctx, &connected)
	return &connected
}

// decideOwnership classifies the VIPs like the service does. MicroShift's router may
// use another port of an address that serves as VIP.
func (h *host) decideOwnership() ownership.Decision {
	switch {
	case h.microShiftState.active && h.lastGoodInForce:
		return ownership.Decide(h.vips.API, nil, ownershipAddresses(h.addresses))
	case h.microShiftState.active:
		return h.microShiftState.decision
	default:
		return ownership.Decide(h.vips.API, h.vips.Ingress, ownershipAddresses(h.addresses))
	}
}

// ownershipAddresses converts addresses for the ownership decision. If the links cannot
// be listed, any link may be one whose name matters, as in the service.
func ownershipAddresses(addresses []address.Address) []ownership.Address {
	links, err := address.Links()
	if err != nil {
		links = nil
	}
	return ownership.FromAddresses(addresses, links)
}

const (
	unitTimeout   = localTimeout - 500*time.Millisecond // for the query to systemd
	statusTimeout = 3 * time.Second                     // for the query to the service, which responds at once unless it hangs
)

// notApplicable reports whether the host cannot hold the API's VIPs, such as an
// administrator's machine or a worker. A host with an invalid configuration file is
// meant to be a control-plane node.
func (h *host) notApplicable() bool {
	return h.configErr == nil && (errors.Is(h.vipsErr, discovery.ErrNoNode) || errors.Is(h.vipsErr, discovery.ErrWorker))
}

// loadConfig loads the configuration like the service: the file, or if that is invalid,
// the last accepted one.
func (h *host) loadConfig() {
	text, err := config.Read(h.ConfigPath)
	if err == nil {
		h.config, err = config.Parse(h.ConfigPath, text)
	}
	if err == nil {
		return
	}
	h.configErr = err
	if h.config, err = config.NewLastAccepted(h.StateDir).Load(); err != nil {
		h.config = config.Default()
	}
}

// hasNetAdmin reports whether this process has the capability to read the kernel's
// tables.
func hasNetAdmin() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&header, &data[0])
	return err == nil && data[0].Effective&(1<<unix.CAP_NET_ADMIN) != 0
}
