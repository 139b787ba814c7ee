// SPDX-License-Identifier: Apache-2.0

package microshift

import "net/netip"

// ConfiguredInternalAddresses returns the internal addresses that the files in dir configure,
// without the default ones (see [DefaultInternalAddresses]). It returns nil without a valid
// configuration.
func ConfiguredInternalAddresses(dir string) []netip.Addr {
	if !Present(dir) {
		return nil
	}
	c, err := Read(dir)
	if err != nil {
		return nil
	}
	return c.configuredInternal()
}

// configuredInternal returns the internal addresses without the default ones.
func (c Config) configuredInternal() []netip.Addr {
	out, err := c.internalAddresses(c.ServiceNetwork)
	if err != nil {
		return nil
	}
	return out
}
