// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
	"github.com/http01-proxyd/http01-proxyd/pkg/report/client"
)

// TestSystemMessage: findings contain only the system's error, without repeating the
// context.
func TestSystemMessage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, unread := config.Read(filepath.Join(dir, strings.Repeat("x", 300)))
	result := checkConfig(t.Context(), &host{configErr: unread, privileged: true})
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
	torn := filepath.Join(dir, "keepalived.conf")
	if err := os.WriteFile(torn, []byte("vrrp_instance a_API_0 {\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := keepalived.Read(torn)
	f, _ := (&host{vipsErr: err}).vipsFault()
	if strings.Count(f.Message, "is incomplete") != 1 {
		t.Errorf("finding %+v", f)
	}
}
