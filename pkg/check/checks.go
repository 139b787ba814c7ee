// SPDX-License-Identifier: Apache-2.0

package check

import (
	"time"
)

const (
	local  = 2 * time.Second     // a check that looks at this host
	remote = 10 * time.Second    // one that asks the network
	asking = serviceTime + local // one that looks at this host, and asks the service
)

// checks are all there are, in the order in which they are printed.
func checks() []check {
	return []check{
		{"nftables", asking, checkNftables},
		{"port", asking, checkPort},
		{"vips", local, checkVIPs},
		{"vip-holder", remote, checkHolders},
		{"ruleset", 2 * local, checkRuleset},
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
		{"service", asking, checkService},
	}
}
