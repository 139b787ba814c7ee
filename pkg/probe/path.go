// SPDX-License-Identifier: Apache-2.0

package probe

// PathQuestion asks whether packets of a size reach a host and come back, by echo
// requests that may not be cut to pieces, over a raw ICMP socket that is connected
// to the host and comes with the question.
type PathQuestion struct {
	IPv6 bool `json:"ipv6"`
	MTU  int  `json:"mtu"` // the size of the large ones, headers and all
}

// Path is what came back.
type Path struct {
	Small  bool `json:"small"`  // small packets do
	Large  bool `json:"large"`  // those of the size in question do
	TooBig bool `json:"tooBig"` // a host on the way says that they are too large: TCP then sends smaller ones
}
