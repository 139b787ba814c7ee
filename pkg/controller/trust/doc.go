// SPDX-License-Identifier: Apache-2.0

// Package trust watches the CAs that TLS to the ingress is verified with: the administrator's bundle
// or, without a bundle, the CAs that this host trusts. The controller links it.
//
// A change takes effect in steps: Watcher.Run reads it, the controller's pipeline adds it to the settings,
// the supervisor sends these to the proxy process, and upstream.Client.Update uses them for exchanges that
// begin later.
package trust
