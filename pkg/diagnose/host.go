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
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/ownership"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/reconcile"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
	"github.com/http01-proxyd/http01-proxyd/pkg/report/client"
)

// Options are what the command line decides.
type Options struct {
	ConfigPath          string
	StateDir            string
	StatusSocket        string
	ManifestDir         string
	DisabledManifestDir string
	ProxyEnvFile        string // the cluster's egress proxy, as the host's services get it
	ResolvConf          string // names the DNS servers
	HostsFile           string // names of addresses, before the DNS is asked
	ChronyConf          string // names the time servers
	Kubeconfig          string // of this node, for the API's name
	APIName             string // of the API; empty: found out
	Token               string // of a challenge to trace; empty: none
}

// Validate says what is wrong with the options that a person gives, if anything:
// they become parts of a request.
func (o Options) Validate() string {
	switch {
	case o.Token != "" && !tokenPattern().MatchString(o.Token):
		return fmt.Sprintf("token %q: it has letters, digits, - and _ only (oc get challenge -A -o yaml shows it as spec.token)", o.Token)
	case o.APIName != "" && (!config.IsHostName(o.APIName) || len(withoutAddresses([]string{o.APIName})) == 0):
		return fmt.Sprintf("name %q: give a name such as api.cluster.example.com, in lower case and without port", o.APIName)
	default:
		return ""
	}
}

// tokenPattern is base64url (RFC 8555 section 8.3), and longer than any CA's.
func tokenPattern() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,256}$`) }

// withoutAddresses leaves out IPv4 addresses, which the configuration's hosts may be, and
// which the DNS does not know.
func withoutAddresses(hosts []string) []string {
	return slices.DeleteFunc(slices.Clone(hosts), func(host string) bool {
		_, err := netip.ParseAddr(host)
		return err == nil
	})
}

// system is what the checks share: what was found before they began. They only
// read it.
type host struct {
	Options
	name            string
	privileged      bool          // may look at the kernel's tables and at others' processes
	config          config.Config // the file's; when it is refused the last accepted one, or the defaults
	configErr       error         // why the file is refused
	vips            keepalived.VIPs
	vipsErr         error             // why there are none
	lastGoodInForce bool              // they are those that the service goes on with, although there is vipsErr
	addresses       []address.Address // of this host
	addressErr      error             // why they are not known
	ownership       ownership.Decision
	internalVIPs    []netip.Addr    // given as VIPs: those of MicroShift's API server, of which nothing is caught
	microShiftState microShiftState // what MicroShift is to this host
	names           []string        // of the API, as far as they are known without asking the network
	prober          *prober.Client  // once the checks run
	observed        *observations   // what the network says to what several checks ask
	unit            func() (systemd.Unit, error)
	fetchReport     func() (report.Report, error)     // the service how it is, each time
	report          func() (report.Report, error)     // what it says of itself; asked from the beginning, after the addresses
	readAddresses   func() ([]address.Address, error) // the addresses of this host, each time
	stillUnnoticed  func() []netip.Addr               // see findStillUnnoticed
}

// serviceState is what the running service says of itself; empty when none answers.
func (h *host) serviceState() (report.Reason, string) {
	said, err := h.report()
	if err != nil {
		return "", ""
	}
	return said.Condition().Reason, said.Condition().Message
}

// describe finds out what the checks share.
func inspectHost(ctx context.Context, o Options) (*host, error) {
	h := &host{Options: o, privileged: hasNetAdmin()}
	var err error
	if h.name, err = os.Hostname(); err != nil {
		return nil, fmt.Errorf("read the host's name: %w", err)
	}
	h.loadConfig()
	h.vips, h.vipsErr = findVIPs(ctx, o, h.config.VIPs)
	h.readAddresses = listAddresses
	h.addresses, h.addressErr = h.readAddresses()
	h.loadMicroShift(ctx)
	h.fetchReport = func() (report.Report, error) {
		ctx, cancel := context.WithTimeout(ctx, statusTimeout)
		defer cancel()
		return client.Fetch(ctx, o.StatusSocket)
	}
	h.report = sync.OnceValues(h.fetchReport)
	go func() { _, _ = h.report() }()
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
		return systemd.QueryUnit(ctx, unitName)
	})
	return h, nil
}

// decideOwnership puts the VIPs into classes as the service does. A MicroShift's router may
// well be on another port of an address that stands for a VIP.
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

// ownershipAddresses is what a decision needs of the addresses. Where the links cannot be listed,
// any may be one of those whose names matter, as in the service.
func ownershipAddresses(addresses []address.Address) []ownership.Address {
	links, err := address.Links()
	if err != nil {
		links = nil
	}
	return reconcile.OwnershipAddresses(addresses, links)
}

const (
	unitTimeout   = localTimeout - 500*time.Millisecond // for the question to systemd
	statusTimeout = 3 * time.Second                     // for that to the service, which answers at once unless it hangs
)

// notApplicable holds for a host that has nothing to do with the API's VIPs, such as an
// admin's own machine or a worker. One with a configuration that is refused is
// meant to be a master.
func (h *host) notApplicable() bool {
	return h.configErr == nil && (errors.Is(h.vipsErr, errNoNode) || errors.Is(h.vipsErr, errWorker))
}

// loadConfig takes what the service would: the file, or where that is refused
// the last one that was accepted.
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

// hasNetAdmin reports whether this process has the capability that the kernel asks
// for before it shows its tables.
func hasNetAdmin() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&header, &data[0])
	return err == nil && data[0].Effective&(1<<unix.CAP_NET_ADMIN) != 0
}

func listAddresses() (list []address.Address, err error) {
	w, err := address.Open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	return w.Snapshot()
}
