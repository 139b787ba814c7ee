// SPDX-License-Identifier: Apache-2.0

// Package oc owns a stand-in for the command oc and for the cluster that it
// speaks to, so that the commands of the documentation run as they are written.
//
// No OpenShift runs in a test. What stands in for it is as real as can be: the
// API server's own code judges and merges the objects (package judge), and the
// hosts are changed as the machine-config-daemon does it (package mcd). It
// knows the verbs and flags that the documentation uses and refuses others.
package oc
