// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/manual/manualtest"
)

func TestReference(t *testing.T) {
	t.Parallel()
	manualtest.Reference(t, rootCommand(), "http01-proxyd*.md")
}

func TestManPages(t *testing.T) { manualtest.ManPages(t, rootCommand(), "http01-proxyd", "8") }
