// SPDX-License-Identifier: Apache-2.0

// Package oc simulates the command oc and its cluster, so that the commands of the
// documentation run as written.
//
// No OpenShift runs in a test. The simulation uses real parts where possible: the API
// server's own code validates and merges the objects, the machine-config-operator's own code
// renders the configuration and merges the policy, and package mcd changes the hosts as the
// machine-config-daemon does. It supports the verbs and flags in the documentation and rejects
// others.
package oc
