// SPDX-License-Identifier: Apache-2.0

package packaging_test

import "runtime"

// architecture is the architecture of this machine.
const architecture = runtime.GOARCH

// otherArchitecture is an architecture of other machines.
var otherArchitecture = map[bool]string{true: "arm64", false: "amd64"}[architecture == "amd64"]

// rpmArchitecture is rpm's name of the architecture in packaging/build-package.
var rpmArchitecture = map[string]string{
	"amd64": "x86_64", "arm64": "aarch64", "ppc64le": "ppc64le",
	"s390x": "s390x",
}[architecture]
