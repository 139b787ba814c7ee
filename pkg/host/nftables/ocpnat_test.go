// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nftables

// ocpNAT has the form of the rules that OpenShift's API load balancer on bare metal installs
// (baremetal-runtimecfg). It also redirects port 80 of the VIPs.
const ocpNAT = `
table ip ocp_nat {
	chain ocp_prerouting {
		type nat hook prerouting priority -100;
		ip daddr 192.0.2.5 tcp dport 6443 redirect to :9445 comment "OCP_API_LB_REDIRECT"
		ip daddr 192.0.2.5 tcp dport 80 redirect to :9445
	}
	chain ocp_output {
		type nat hook output priority -100;
		ip daddr 192.0.2.5 tcp dport 6443 redirect to :9445 comment "OCP_API_LB_REDIRECT"
		ip daddr 192.0.2.5 tcp dport 80 redirect to :9445
	}
}
table ip6 ocp_nat {
	chain ocp_prerouting {
		type nat hook prerouting priority -100;
		ip6 daddr 2001:db8::5 tcp dport 6443 redirect to :9445 comment "OCP_API_LB_REDIRECT"
		ip6 daddr 2001:db8::5 tcp dport 80 redirect to :9445
	}
	chain ocp_output {
		type nat hook output priority -100;
		ip6 daddr 2001:db8::5 tcp dport 6443 redirect to :9445 comment "OCP_API_LB_REDIRECT"
		ip6 daddr 2001:db8::5 tcp dport 80 redirect to :9445
	}
}
`
