// SPDX-License-Identifier: Apache-2.0

// Package browser shows files in headless Chromium and reports what it does with them: the
// document, the layout, requests and messages of the console. It uses the DevTools protocol
// over a pipe (https://chromedevtools.github.io/devtools-protocol/), so no port is open.
package browser
