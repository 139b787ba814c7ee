// SPDX-License-Identifier: Apache-2.0

// Package openshift compares this project with OpenShift's machine-config-operator, whose own code
// answers (test/support/oracle): what it renders from the MachineConfigs of each platform and from
// ours, which node disruption policy becomes active, and which files of keepalived and HAProxy it
// gives the nodes. preflight must have predicted the results.
package openshift
