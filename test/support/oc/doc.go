// SPDX-License-Identifier: Apache-2.0

// Package oc stands in for the command oc.
//
// [Commands] lets a shell call back into the test: test/rehearsal/openshift passes each call to the
// real kubectl with a real API server.
//
// [Cluster] is a cluster without an API server, for what the real one cannot show there: nodes with the
// daemons of 4.17 and 4.18 or with another OS image, which package mcd replays. It also runs in seconds
// what takes minutes there. It uses real parts where possible: the API server's own code validates and
// merges the objects, and the machine-config-operator's own code renders the configuration and merges
// the policy. It supports the verbs and flags that these tests need, and rejects others.
package oc
