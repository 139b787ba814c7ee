// SPDX-License-Identifier: Apache-2.0

// Package mustgather runs the script of the image for `oc adm must-gather`, with the real oc http01. A script in
// place of oc prints objects and journals with secrets.
package mustgather
