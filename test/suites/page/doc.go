// SPDX-License-Identifier: Apache-2.0

// Package page shows the pages of `status -o html` and `check -o html` of services in a lab
// in headless Chromium: what they contain, request and execute, and how they look.
package page
