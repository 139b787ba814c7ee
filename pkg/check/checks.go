// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"time"
)

const (
	local  = 2 * time.Second  // a check that looks at this host
	remote = 10 * time.Second // one that asks the network
)

// checks are all there are, in the order in which they are printed.
func checks() []check {
	return []check{
		{"nftables", local, checkNftables},
		{"port", local, checkPort},
		{"vips", local, checkVIPs},
		{"vip-holder", remote, checkHolders},
		{"ruleset", 2 * local, seenRuleset},
		{"ingress", remote, checkIngress},
		{"route", remote, checkRoute},
		{"dns", remote, checkDNS},
		{"egress-proxy", local, checkProxy},
		{"self-check", remote, checkSelf},
		{"certificate", remote, checkCertificate},
		{"mtu", remote, checkPath},
		{"conntrack", local, checkConntrack},
		{"clock", remote, checkClock},
		{"config", local, checkConfig},
		{"service", local, checkService},
	}
}

// seenRuleset is checkRuleset, whose result others want to know too.
func seenRuleset(ctx context.Context, h *host) Result {
	r, known := h.seen.rules.wait(ctx)
	if !known {
		return skipped("there was no time to look")
	}
	return r
}
