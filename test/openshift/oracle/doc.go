// SPDX-License-Identifier: Apache-2.0

// Command oracle answers what OpenShift's machine-config-operator does with the objects of a
// cluster. It calls the operator's own functions, which need no cluster:
//
//   - template.RunBootstrap: the MachineConfigs of the platform,
//   - render.RunBootstrap: the rendered configuration of the pool master,
//   - apihelpers.MergeClusterPolicies: the active node disruption policy,
//   - containerruntimeconfig.RunImageBootstrap: the MachineConfig of a ClusterImagePolicy,
//   - common.FindClosestFilePolicyPathMatch: the actions of a changed file,
//   - common.DecodeIgnitionFileContents: the content of a file.
//
// It reads one request as JSON from its standard input, and prints one response.
//
// go.mod contains the operator's version of OpenShift 4.20, and 4.19.mod the version of 4.19:
//
//	go build -modfile=4.19.mod ./oracle
package main
