// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package rtnl sends requests to the kernel about links, addresses and routes
// (rtnetlink(7)). The controller and check link it.
package rtnl
