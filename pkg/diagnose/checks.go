// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"slices"
	"time"
)

const (
	local  = 2 * time.Second     // a check that looks at this host
	remote = 10 * time.Second    // one that asks the network
	asking = serviceTime + local // one that looks at this host, and asks the service
)

// checksOn are those that are for a host: one that is not MicroShift's is not to hear
// of it.
func checksOn(h *host) []check {
	return slices.DeleteFunc(checks(), func(c check) bool { return c.name == internalCheck && !h.edge.Present })
}

const internalCheck = "internal-address"

// checks are all there are, in the order in which they are printed.
func checks() []check {
	return []check{
		{"nftables", asking, checkNftables},
		{"port", asking, checkPort},
		{"vips", local, checkVIPs},
		{internalCheck, local, checkInternal},
		{"vip-holder", remote, checkHolders},
		{"ruleset", 2 * local, checkRuleset},
		{"ingress", remote, checkIngress},
		{"route", remote, checkRoute},
		{"dns", remote, checkDNS},
		{"egress-proxy", asking, checkProxy},
		{"self-check", remote, checkSelf},
		{"certificate", remote, checkCertificate},
		{"mtu", remote, checkPath},
		{"conntrack", local, checkConntrack},
		{"clock", remote, checkClock},
		{"config", local, checkConfig},
		{"trust", local, checkTrust},
		{"service", asking, checkService},
	}
}
