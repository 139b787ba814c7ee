// SPDX-License-Identifier: Apache-2.0

package config

// HostPaths are the files and directories of this host that the service and check use.
type HostPaths struct {
	ConfigPath          string
	StateDir            string
	StatusSocket        string
	ManifestDir         string // kubelet's directory of static pods
	DisabledManifestDir string // of static pods that are disabled
	ResolvConf          string // names the DNS servers
	HostsFile           string // names of addresses, which precede the DNS
}
