// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"slices"
	"time"
)

const (
	localTimeout        = 2 * time.Second              // a check of this host only
	networkTimeout      = 10 * time.Second             // a check that contacts the network
	serviceCheckTimeout = statusTimeout + localTimeout // a check of this host that also queries the service
)

// applicableChecks are the checks for a host. Without MicroShift, its own check is left
// out.
func applicableChecks(h *host) []check {
	return slices.DeleteFunc(allChecks(), func(c check) bool { return c.name == internalAddressCheck && !h.microShiftState.Present })
}

const internalAddressCheck = "internal-address"

// allChecks lists all checks in the order of the output.
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
