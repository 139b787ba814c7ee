// SPDX-License-Identifier: Apache-2.0

package service

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/report/client"
)

// TestSystemMessage: findings contain only the system's error, without repeating the
// context.
func TestSystemMessage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, unread := config.Read(filepath.Join(dir, strings.Repeat("x", 300)))
	result := Configuration{Err: unread, Privileged: true}.Check()
	if len(result.Findings) != 1 || strings.Contains(result.Findings[0].Message, "read the configuration") {
		t.Errorf("finding %+v", result)
	}
	socket := filepath.Join(dir, "none.sock")
	_, silent := client.Fetch(t.Context(), socket)
	if got, want := systemMessage(silent), "dial unix "+socket+": connect: no such file or directory"; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	if got := systemMessage(errors.New("another")); got != "another" {
		t.Errorf("message %q", got)
	}
}
