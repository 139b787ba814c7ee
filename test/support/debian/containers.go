// SPDX-License-Identifier: Apache-2.0

package debian

import "context"

// containersSuite is a release whose podman and skopeo use the same version of containers/image as OpenShift 4.20
// (5.34). In [Suite], they are built without sigstore.
const containersSuite = "trixie"

// Containers returns a tree with podman 5.4 and skopeo 1.18. It creates the tree in cache when it is missing, which
// takes some 20 seconds, root and the network. Several processes may call Containers concurrently.
func Containers(ctx context.Context, cache string) (Tree, error) {
	return unpack(ctx, cache, containersSuite, "podman,skopeo")
}
