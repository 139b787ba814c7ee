// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"slices"
	"time"
)

const (
	localTimeout        = 2 * time.Second              // a check that looks at this host
	networkTimeout      = 10 * time.Second             // one that asks the network
	serviceCheckTimeout = statusTimeout + localTimeout // one that looks at this host, and asks the service
)

// applicableChecks are those that are for a host: one that is not MicroShift's is not to hear
// of it.
func applicableChecks(h *host) []check {
	return slices.DeleteFunc(allChecks(), func(c check) bool { return c.name == internalAddressCheck && !h.microShiftState.Present })
}

const internalAddressCheck = "internal-address"

// allChecks are all there are, in the order in which they are printed.
func allChecks() []check {
	return []check{
		{"nftables", serviceCheckTimeout, checkNftables},
		{"port", serviceCheckTimeout, checkPorts},
		{"vips", localTimeout, checkVIPs},
		{internalAddressCheck, localTimeout, checkInternalAddress},
		{"vip-holder", networkTimeout, checkVIPHolders},
		{"ruleset", 2 * localTimeout, checkRuleset},
		{"ingress", networkTimeout, checkIngress},
		{"route", networkTimeout, checkRoute},
		{"dns", networkTimeout, checkDNS},
		{"egress-proxy", serviceCheckTimeout, checkEgressProxy},
		{"self-check", networkTimeout, checkSelfCheck},
		{"certificate", networkTimeout, checkCertificate},
		{"mtu", networkTimeout, checkMTU},
		{"conntrack", localTimeout, checkConntrack},
		{"clock", networkTimeout, checkClock},
		{"config", localTimeout, checkConfig},
		{"trust", localTimeout, checkTrust},
		{"service", serviceCheckTimeout, checkService},
	}
}
