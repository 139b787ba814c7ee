// SPDX-License-Identifier: Apache-2.0

package debian

import "context"

// haproxySuite is a release with HAProxy 3.2, as in OpenShift's routers from 4.23 on, or a later one: testing.
// [Suite] has 2.6.
const haproxySuite = "forky"

// HAProxy returns the command of HAProxy 3.2, which uses the libraries of its own tree. It creates the
// tree in cache when it is missing, which takes seconds, root and the network. Several processes may
// call HAProxy concurrently.
func HAProxy(ctx context.Context, cache string) (command []string, err error) {
	// A mirror of testing can be older than the index is valid.
	t, err := unpack(ctx, cache, haproxySuite, "haproxy", `--aptopt=Acquire::Check-Valid-Until "false"`)
	if err != nil {
		return nil, err
	}
	return t.Command("usr/sbin/haproxy"), nil
}
