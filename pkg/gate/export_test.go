// SPDX-License-Identifier: Apache-2.0

package gate

// InFlight is how many connections are in flight.
func (g *Gate) InFlight() int {
	n, _ := g.live.state()
	return n
}
