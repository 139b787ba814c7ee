// SPDX-License-Identifier: Apache-2.0

// Command http01-proxyd is the service on the host: it forwards ACME HTTP-01 challenges
// for the API VIP to the ingress routers. It also contains the commands that inspect
// the service.
package main
