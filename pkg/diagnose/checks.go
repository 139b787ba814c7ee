// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/certificate"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/challengetrace"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/clock"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/dns"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/selfcheck"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/service"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/vips"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/apiname"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	localTimeout        = 2 * time.Second                      // a check of this host only
	networkTimeout      = 10 * time.Second                     // a check that contacts the network
	serviceCheckTimeout = service.ReportTimeout + localTimeout // a check of this host that also queries the service
	traceTimeout        = selfcheck.WatchTime + localTimeout   // a check that waits for a request of cert-manager
)

// check is one entry of the list of checks. run collects the observations that the check
// evaluates.
type check struct {
	name    string
	about   string        // what it checks, in one sentence
	needs   need          // without which it is not run
	timeout time.Duration // of this check; all checks run concurrently
	run     func(context.Context, *observations) result.Result
}

// need names the observation that a check evaluates besides the host.
type need int

const (
	needsNothing need = iota
	needsVIPs         // the VIPs, which the configuration may contain
	needsConfig       // the configuration
)

// selectedChecks are the checks for this host that the command line selects. Without
// MicroShift, its own check is left out.
func (h *host) selectedChecks() []check {
	return slices.DeleteFunc(allChecks(), func(c check) bool {
		return c.name == internalAddressCheck && !h.microShift.Present || len(h.Only) > 0 && !slices.Contains(h.Only, c.name)
	})
}

// unmetNeed is the reason for which a check cannot run on this host; empty if there is
// none.
func (h *host) unmetNeed(c check) string {
	switch needed := c.needs == needsConfig || c.needs == needsVIPs && errors.Is(h.VIPs.Err, vips.ErrNoNode); {
	case needed && h.rejected != "":
		return h.rejected
	case !h.isApplicable() && c.name != configCheck:
		return "this host is not a control-plane node with virtual IPs"
	default:
		return ""
	}
}

// List lists the checks with one sentence each.
func List() (all []Entry) {
	for _, c := range allChecks() {
		e := Entry{Name: c.name, About: c.about, Findings: []findings.ID{}}
		for _, f := range findings.All() {
			if f.Check == c.name && !f.JournalOnly {
				e.Findings = append(e.Findings, f.ID)
			}
		}
		all = append(all, e)
	}
	return all
}

// Entry describes a check.
type Entry struct {
	Name     string        `json:"name"`     // for --only
	About    string        `json:"about"`    // what it checks, in one sentence
	Findings []findings.ID `json:"findings"` // that it detects
}

const (
	internalAddressCheck = "internal-address"
	configCheck          = "config"
)

// allChecks lists all checks in the order of the output.
func allChecks() []check {
	return []check{
		{
			"nftables", "The nftables table of the service is in place, or the kernel supports it.",
			needsNothing, serviceCheckTimeout,
			func(_ context.Context, o *observations) result.Result { return o.service.CheckNftables() },
		},
		{
			"port", "No other program uses the ports of the service.", needsConfig, serviceCheckTimeout,
			func(_ context.Context, o *observations) result.Result {
				return o.service.CheckPorts(o.config, !o.config.Enabled() || o.VIPs.Unusable())
			},
		},
		{
			"vips", "The VIPs of this cluster are known and suit the service.", needsVIPs, localTimeout,
			func(_ context.Context, o *observations) result.Result {
				if o.VIPs.MicroShift {
					return o.microShift.CheckVIPs(o.VIPs, o.config.Upstream.InitialPort())
				}
				return o.VIPs.Check(o.vipSource())
			},
		},
		{
			internalAddressCheck, "The internal address of MicroShift's API server is on this host.", needsNothing, localTimeout,
			func(_ context.Context, o *observations) result.Result { return o.microShift.CheckInternalAddress() },
		},
		{
			"vip-holder", "The links of the VIPs on this host are up, and BGP announces the VIPs if it should.",
			needsVIPs, localTimeout,
			func(ctx context.Context, o *observations) result.Result { return o.CheckVIPs(ctx) },
		},
		{
			"ruleset", "No rule of this host keeps packets to the API VIPs from the service, or its replies from clients.",
			needsConfig, packetsTimeout, checkPackets,
		},
		{
			"ingress", "The ingress routers respond at the ingress VIPs.", needsConfig, networkTimeout,
			func(ctx context.Context, o *observations) result.Result { return o.observeIngress(ctx).Check() },
		},
		{
			"route", "The routers forward challenges to the solver of cert-manager.", needsConfig, networkTimeout,
			func(ctx context.Context, o *observations) result.Result {
				recent := o.recentChallenges()
				return o.observeIngress(ctx).CheckRoute(o.Token, recent.LastFor(o.namesOfAPI(ctx)), recent.LastForAddress())
			},
		},
		{"dns", "The API's names resolve to the API VIPs, in each address family.", needsVIPs, networkTimeout, checkDNS},
		{
			"egress-proxy", "cert-manager's self check and the service use the right egress proxy.",
			needsConfig, serviceCheckTimeout,
			func(ctx context.Context, o *observations) result.Result {
				return o.egress().Check(o.namesOfAPI(ctx), o.reported().EgressProxy)
			},
		},
		{
			"self-check", "http01-proxyd responds at port 80 of the API VIPs, as a self check on this host sees it.",
			needsConfig, traceTimeout, checkSelfCheck,
		},
		{
			"certificate", "The API servers present valid certificates for their names, and their renewal works.",
			needsVIPs, networkTimeout, checkCertificate,
		},
		{
			"mtu", "Packets of full size reach the ingress VIPs.", needsVIPs, networkTimeout,
			func(ctx context.Context, o *observations) result.Result { return o.CheckMTU(ctx) },
		},
		{
			"clock", "This host's clock agrees with its time servers.", needsNothing, networkTimeout,
			func(ctx context.Context, o *observations) result.Result { return o.readClocks(ctx).Check() },
		},
		{
			configCheck, "The configuration file is valid, and the service is enabled.", needsNothing, localTimeout,
			func(_ context.Context, o *observations) result.Result {
				return service.Configuration{
					Path: o.ConfigPath, Err: o.configErr, Enabled: o.config.Enabled(),
					InternalHosts: o.config.InternalHosts(), Accepted: o.accepted, Privileged: o.privileged,
				}.Check()
			},
		},
		{
			"trust", "The CA bundle that verifies the ingress is readable and complete.", needsConfig, localTimeout,
			func(ctx context.Context, o *observations) result.Result {
				t, known := o.trust.await(ctx)
				if !known {
					return result.Skip("no time left to read it")
				}
				return t.Check(o.reported().Trust)
			},
		},
		{
			"service", "The service runs and is ready.", needsNothing, serviceCheckTimeout,
			func(_ context.Context, o *observations) result.Result { return o.service.Check() },
		},
	}
}

// reported is the report of the service; zero if it does not respond.
func (h *host) reported() report.Report {
	reported, err := h.service.Report()
	if err != nil {
		return report.Report{}
	}
	return reported
}

func (o *observations) recentChallenges() ingress.Challenges { return o.reported().Challenges.Recent }

// ownAddresses are this host's addresses in the networks of the API VIPs, without VIPs.
func (o *observations) ownAddresses() (all []netip.Addr) {
	for _, vip := range o.VIPs.API {
		if w, err := o.PathTo(vip); err == nil && w.Source.IsValid() && !slices.Contains(all, w.Source) {
			all = append(all, w.Source)
		}
	}
	return all
}

// observeIngress waits for the responses of the ingress VIPs.
func (o *observations) observeIngress(ctx context.Context) ingress.Ingress {
	i := ingress.Ingress{VIPs: o.VIPs, Port: o.config.Upstream.InitialPort()}
	i.NeedsEgress = o.egress().Proxied(o.VIPs.Ingress)
	i.Route, _ = o.route.await(ctx)
	found := o.ingressPages.await(ctx)
	i.Name = o.apiName(ctx)
	for _, vip := range o.VIPs.Ingress {
		if page, known := found[vip]; known && !o.isCutOff(vip) {
			i.Responses = append(i.Responses, ingress.NewResponse(vip, i.Port, page))
		}
	}
	return i
}

func checkDNS(ctx context.Context, o *observations) result.Result {
	served := o.VIPs.Served()
	if len(served) == 0 {
		return result.Nothing("http01-proxyd serves no VIP")
	}
	answers, known := o.dns.await(ctx)
	if !known {
		return result.Skip("no time left for the check")
	}
	others := make(map[netip.Addr]*future[*dns.Other])
	for _, v := range answers.Views {
		for _, addr := range v.Others(served) {
			others[addr] = newFuture(func() *dns.Other { return o.fetchOther(ctx, addr) })
		}
	}
	n := dns.Names{Answers: answers, VIPs: served, AtOther: make(map[netip.Addr]dns.Other)}
	for addr, other := range awaitAll(ctx, others) {
		if other != nil {
			n.AtOther[addr] = *other
		}
	}
	return n.Check()
}

// fetchOther sends a request to an address that is not a VIP; nil if it was not sent.
func (o *observations) fetchOther(ctx context.Context, addr netip.Addr) *dns.Other {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout+time.Second)
	defer cancel()
	page, err := o.fetch(ctx, protocol.FetchRequest{Addr: netip.AddrPortFrom(addr, httpPort), Path: "/"})
	if err != nil {
		return nil
	}
	w, err := o.PathTo(addr)
	return &dns.Other{Page: page, Neighbour: err == nil && !w.Gateway.IsValid()}
}

func checkSelfCheck(ctx context.Context, o *observations) result.Result {
	if len(o.VIPs.Served()) == 0 {
		return result.Nothing("http01-proxyd serves no VIP")
	}
	s := selfcheck.SelfCheck{
		Responses: o.vipResponses(ctx), Names: o.namesOfAPI(ctx), InFiles: o.inFiles, Accepted: o.accepted.Names,
		Holder: len(o.VIPs.Held) > 0, Serving: o.service.IsServing(),
		SelfTests: o.reported().SelfTests, VIPTests: o.reported().VIPTests,
	}
	if last := o.reported().Challenges.LastForeignHost; time.Since(last) < selfcheck.ForeignHostPeriod {
		s.ForeignHost = last
	}
	if o.Token != "" {
		s.Token, s.Challenges = o.Token, o.challengePages.await(ctx)
		s.Log, _ = o.challengeLog.await(ctx)
	}
	return s.Check()
}

func checkCertificate(ctx context.Context, o *observations) result.Result {
	if o.microShift.IsKnown() {
		names, unreadable := o.microShift.ExternalNames(o.name, slices.Concat(o.names, o.config.Hosts))
		m := certificate.MicroShift{Host: o.Host, Names: names, Omitted: unreadable, NodeIPs: o.microShift.Computed.NodeIPs}
		return m.Check(ctx, o.prober.Certificates)
	}
	names, internal := o.namesOfAPI(ctx), apiname.ReadInternal(o.Kubeconfig)
	names = slices.Clone(names[:min(len(names), maxNames)])
	if internal != "" && !slices.Contains(names, internal) {
		names = append(names, internal)
	}
	requests := certificate.Requests(o.apiServers(), names)
	presented := o.prober.Certificates(ctx, requests)
	return certificate.Check(presented, o.VIPs.Held, internal, o.reported().Certificates, time.Now())
}

// apiServers are the reachable VIPs and this host's own addresses beside them. Behind a
// VIP is one API server. Behind the host's own address is the one on this host, if it is
// a control-plane node.
func (o *observations) apiServers() []netip.Addr {
	return slices.Concat(slices.DeleteFunc(slices.Clone(o.VIPs.API), o.isCutOff), o.ownAddresses())
}

const (
	ntpPort      = 123
	clockTimeout = 5 * time.Second
)

// readClocks reads the clocks of the time servers.
func (o *observations) readClocks(ctx context.Context) clock.Readings {
	servers := clock.Servers(o.ChronyConf)
	return clock.Readings{ConfPath: o.ChronyConf, Servers: servers, All: o.queryTimeServers(ctx, servers)}
}

// queryTimeServers queries time servers concurrently. It leaves out VIPs without a response.
func (o *observations) queryTimeServers(ctx context.Context, names []string) []clock.Reading {
	ctx, cancel := context.WithTimeout(ctx, clockTimeout)
	defer cancel()
	var all []clock.Reading
	var group sync.WaitGroup
	var mu sync.Mutex
	for _, name := range names {
		group.Go(func() {
			addrs, err := o.resolver().Lookup(ctx, name)
			if err != nil {
				return
			}
			q := &protocol.ClockRequest{Addr: netip.AddrPortFrom(addrs[0], ntpPort)}
			a, err := o.prober.Query(ctx, protocol.Request{Clock: q})
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, clock.Reading{Server: name, Offset: a.Clock.Offset})
		})
	}
	group.Wait()
	return all
}

// traceChallenge follows the challenge of --token.
func (o *observations) traceChallenge(ctx context.Context) []result.Step {
	name := o.apiName(ctx)
	if name == "" {
		return []result.Step{result.NewStep("dns", "", false, 0, "the API's name is unknown (set --name)")}
	}
	answers, _ := o.dns.await(ctx)
	steps, addresses := challengetrace.Names(name, answers, o.VIPs.Served())
	t := challengetrace.Trace{Token: o.Token, DNS: steps}
	at := make(pages)
	for _, addr := range addresses {
		if at[addr] = o.challengePages[addr]; at[addr] == nil {
			at.add(ctx, addr, func(ctx context.Context) (protocol.FetchResult, error) { return o.fetchChallenge(ctx, addr) })
		}
	}
	known := at.await(ctx)
	for _, addr := range addresses {
		page, ok := known[addr]
		at := netip.AddrPortFrom(addr, httpPort)
		t.Answers = append(t.Answers, challengetrace.Answer{Addr: at, Page: page, Lost: !ok})
	}
	t.Ingress = o.observeIngress(ctx).Responses
	t.Log, _ = o.challengeLog.await(ctx)
	return t.Steps()
}
