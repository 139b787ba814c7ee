// SPDX-License-Identifier: Apache-2.0

package microshift

import "net/netip"

// InternalAddresses are the internal addresses that the files in dir give as they are, which
// is without the default ones (see [Guarded]); nil where there is no configuration
// that MicroShift would take.
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

// configuredInternal are the internal addresses without the default ones.
func (c Config) configuredInternal() []netip.Addr {
	out, err := c.internalAddresses(c.ServiceNetwork)
	if err != nil {
		return nil
	}
	return out
}
