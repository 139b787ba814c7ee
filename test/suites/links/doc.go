// SPDX-License-Identifier: Apache-2.0

// Package links checks the links of the repository's documents, and the URLs of documents
// in all other files, without a network: the file exists, and so does the heading.
package links
