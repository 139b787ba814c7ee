// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/network"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/service"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/vips"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/apiname"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/ownership"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/staticpod"
	ingressegress "github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Options are the settings of the command line.
type Options struct {
	config.HostPaths

	ProxyEnvFile string // environment file with the cluster's egress proxy
	ChronyConf   string // lists the time servers
	Kubeconfig   string // of this node; contains the API's name

	ConfigRequired bool // the configuration file must exist: without it, the defaults would be checked

	APIName string // name of the API; empty: detected
	Token   string // of a challenge to trace; empty: none

	Only    []string      // names of checks; empty: all
	Timeout time.Duration // of the whole run; 0: [DefaultTimeout]

	Coordination *Coordination // with the checks of other hosts; nil: none
}

// withoutAddresses removes IP addresses. The configuration's hosts may contain them,
// but the DNS has no records for them.
func withoutAddresses(hosts []string) []string {
	return slices.DeleteFunc(slices.Clone(hosts), isAddress)
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// host is the state of this host that was collected before the checks start. The checks
// only read it.
type host struct {
	Options
	network.Host

	name       string
	privileged bool          // can read the kernel's tables and other users' processes
	config     config.Config // from the file; if that is invalid, the last accepted one, or the defaults
	configErr  error         // why the file is invalid
	rejected   string        // what the file is if nothing accepted replaces it; empty: valid or replaced
	addressErr error         // why the addresses are unknown
	microShift microshift.State
	names      []string             // of the API, as far as known without network requests
	inFiles    []string             // names of the API in the files of this host, whatever hosts lists
	accepted   report.AcceptedHosts // as the service decides
	service    *service.Service
}

// inspectWithin is inspectHost, unless the file system of a file does not respond.
func inspectWithin(ctx context.Context, o Options) (host, error) {
	type inspected struct {
		host
		err error
	}
	state := newFuture(func() (i inspected) {
		i.host, i.err = inspectHost(ctx, o)
		return i
	})
	timeout := cmp.Or(o.Timeout, DefaultTimeout)
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	i, known := state.await(bounded)
	if !known {
		return host{}, fmt.Errorf("reading the files of this host has not returned within %v: check their file systems: %w",
			timeout, context.Cause(bounded))
	}
	return i.host, i.err
}

// inspectHost collects the state that the checks share.
func inspectHost(ctx context.Context, o Options) (host, error) {
	h := host{Options: o, privileged: nftables.HasNetAdmin()}
	var err error
	if h.name, err = os.Hostname(); err != nil {
		return h, fmt.Errorf("cannot read the host name: %w", err)
	}
	_, err = textfile.Within(o.ConfigPath, func() (fs.FileInfo, error) { return os.Lstat(o.ConfigPath) })
	if o.ConfigRequired && errors.Is(err, fs.ErrNotExist) {
		return h, fmt.Errorf("cannot read the configuration: %w", err)
	}
	h.config, h.rejected, h.configErr = loadConfig(o.HostPaths)
	h.VIPs = vips.Discover(h.vipSource().Manifests, h.config.VIPs)
	h.Addresses, h.addressErr = address.List()
	h.microShift, h.config, h.VIPs = microshift.Source{
		Service: h.config, Addresses: h.Addresses, AddressErr: h.addressErr, Privileged: h.privileged,
	}.Load(h.VIPs)
	h.service = service.New(ctx, o.StatusSocket, h.privileged)
	if h.isFaulty() {
		if reported, err := h.service.Report(); err == nil {
			h.useLastGoodVIPs(reported)
		}
	}
	if !h.VIPs.MicroShift {
		h.VIPs.Decision = ownership.Decide(h.VIPs.API, h.VIPs.Ingress, h.Addresses)
	}
	names := apiname.Sources{
		Path: o.APIServerURLFile, MicroShiftDir: h.config.MicroShift.Directory, MicroShift: h.microShift.Snapshot,
	}
	names.Name, names.Err = apiname.Read(o.APIServerURLFile)
	if h.accepted = names.Accept(h.config, o.ConfigPath); !h.isApplicable() && h.accepted.Source == report.HostsUnknown {
		h.accepted = report.AcceptedHosts{} // the name is on the hosts of a cluster
	}
	h.names = slices.DeleteFunc(withoutAddresses(h.config.Hosts), config.IsInternalAPIName) // the CA finds no such name
	if len(h.names) == 0 && h.VIPs.MicroShift {
		h.names = h.microShift.ChallengeNames()
	}
	if h.inFiles, _, _ = names.Names(); len(h.inFiles) == 0 {
		h.inFiles = h.kubeconfigNames()
	}
	if o.APIName != "" {
		h.names, h.inFiles = []string{o.APIName}, nil
	}
	return h, nil
}

// kubeconfigNames are the names of the API in the kubelet's kubeconfig: one, or none.
func (h *host) kubeconfigNames() []string {
	if name := apiname.ReadKubeconfig(h.Kubeconfig); name != "" {
		return []string{name}
	}
	return nil
}

// useLastGoodVIPs uses the VIPs that the service keeps in use despite a fault. MicroShift's
// router may use another port of an address that serves as VIP.
func (h *host) useLastGoodVIPs(reported report.Report) {
	h.VIPs = h.VIPs.WithLastGood(reported)
	if h.VIPs.MicroShift && h.VIPs.LastGood {
		h.config.Upstream.Port = reported.Upstreams[0].Address.Port()
		h.VIPs.Decision = ownership.Decide(h.VIPs.API, nil, h.Addresses)
	}
}

// isFaulty reports whether the reason for missing VIPs is a fault.
func (h *host) isFaulty() (bad bool) {
	if h.VIPs.MicroShift {
		_, bad = h.microShift.Fault(h.VIPs)
	} else {
		_, bad = h.VIPs.Fault(h.vipSource())
	}
	return bad
}

// heldNow returns the VIPs of a list that this host holds now; all of them if its addresses
// cannot be read.
func heldNow(vips []netip.Addr) []netip.Addr {
	now, err := address.List()
	if err != nil {
		return vips
	}
	return ownership.Decide(vips, nil, now).Held
}

func (h *host) vipSource() vips.Source {
	return vips.Source{
		Config: h.config.VIPs, ConfigPath: h.ConfigPath, AddressErr: h.addressErr, Privileged: h.privileged,
		Manifests: vips.ManifestDirs{Active: h.ManifestDir, Disabled: h.DisabledManifestDir},
	}
}

// egress are the egress proxies. The automatic part of the no-proxy list contains no name of
// the ingress.
func (h *host) egress() egress.Settings {
	var subnets []netip.Prefix
	for _, own := range h.Addresses {
		subnets = append(subnets, netip.PrefixFrom(own.IP, own.Bits))
	}
	return egress.Settings{
		Config: h.config, StateDir: h.StateDir, EnvFile: h.ProxyEnvFile, Privileged: h.privileged,
		NoProxy: ingressegress.AutomaticNoProxy(h.config.VIPs, h.VIPs.API, h.VIPs.Ingress, subnets, ""),
	}
}

// loadConfig loads the configuration like the service: the file, or if that is invalid,
// the last accepted one. Without that, the defaults apply, and rejected is the reason.
func loadConfig(paths config.HostPaths) (c config.Config, rejected string, invalid error) {
	text, invalid := config.Read(paths.ConfigPath)
	if invalid == nil {
		c, invalid = config.Parse(paths.ConfigPath, text)
	}
	if invalid == nil {
		return c, "", nil
	}
	c, err := config.NewLastAccepted(paths.StateDir).Load()
	var problems config.Problems
	switch {
	case err == nil:
		return c, "", invalid
	case errors.As(invalid, &problems):
		return config.Default(), "configuration rejected", invalid
	default:
		return config.Default(), "configuration not readable", invalid
	}
}

// isApplicable reports whether the host may hold the API's VIPs, unlike an
// administrator's machine or a worker. A host with an invalid configuration file is
// meant to be a control-plane node.
func (h *host) isApplicable() bool {
	return h.configErr != nil || !errors.Is(h.VIPs.Err, vips.ErrNoNode) && !errors.Is(h.VIPs.Err, vips.ErrWorker)
}

// onAllNodes is the advice where a check of this host cannot help.
const onAllNodes = "To check a cluster, run oc http01 check on a workstation, or this command on a control-plane node: " +
	"oc debug node/NODE -- chroot /host http01-proxyd check"

// notApplicableReport is the report of a host that cannot hold the API's VIPs.
func (h *host) notApplicableReport() result.Report {
	r := result.Report{Host: h.name, Outcome: report.CheckNotApplicable, Checks: []result.Result{}}
	if errors.Is(h.VIPs.Err, vips.ErrWorker) {
		r.Summary = fmt.Sprintf("Nothing to check: %s is a worker, "+
			"and only control-plane nodes hold the API's virtual IP.", h.name)
		r.Advice = []string{
			h.ManifestDir + " has no static pod of the API server. This is normal for a worker.",
			onAllNodes,
		}
		return r
	}
	r.Summary = fmt.Sprintf("Nothing to check: %s is not a cluster node with virtual IPs.", h.name)
	r.Advice = []string{
		"http01-proxyd runs on the control-plane nodes of a bare-metal OpenShift cluster, " +
			"where keepalived or kube-vip manages the virtual IP of the API. " +
			fmt.Sprintf("This host has no %s, no %s, no VIPs in %s and no MicroShift. This is normal for other hosts.",
				h.config.VIPs.KeepalivedConfig, staticpod.KeepalivedPath(h.ManifestDir), h.ConfigPath),
		onAllNodes,
		"To check a configuration file only, use --only config --config FILE.",
		"If another program manages the VIPs, set vips.api and vips.ingress in " + h.ConfigPath + ".",
	}
	return r
}
