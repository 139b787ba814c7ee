// SPDX-License-Identifier: Apache-2.0

package apiname_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/apiname"
)

func TestRead(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, want, wantErr string }{
		"as OpenShift writes it": {
			"KUBERNETES_SERVICE_HOST='api-int.ocp.example.com'\nKUBERNETES_SERVICE_PORT='6443'\n",
			"api.ocp.example.com", "",
		},
		"without quotes":   {"# a comment\n KUBERNETES_SERVICE_HOST=API-INT.Example.com.\n", "api.example.com", ""},
		"the name outside": {"KUBERNETES_SERVICE_HOST=\"api.example.com\"", "api.example.com", ""},
		"another variable": {"KUBERNETES_SERVICE_PORT='6443'\n", "", "does not set KUBERNETES_SERVICE_HOST"},
		"an address":       {"KUBERNETES_SERVICE_HOST='192.0.2.5'\n", "", "neither api-int.<cluster> nor api.<cluster>"},
		"no name":          {"KUBERNETES_SERVICE_HOST='api-int.a b;\x1b'\n", "", "neither"},
		"empty":            {"", "", "does not set"},
		"endless":          {strings.Repeat("#\n", 1<<14), "", "longer than"},
	} {
		path := filepath.Join(t.TempDir(), "apiserver-url.env")
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := apiname.Read(path)
		if got != tt.want || (err == nil) != (tt.wantErr == "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := apiname.Read(filepath.Join(t.TempDir(), "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
}

func TestReadKubeconfig(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct{ external, internal string }{
		"": {},
		"    server: https://api-int.lab.test:6443\n":    {"api.lab.test", "api-int.lab.test"},
		"    server: https://API-INT.lab.test.:6443\n":   {"api.lab.test", "api-int.lab.test"},
		"    server: \"https://API.lab.test:6443/\"\n":   {"api.lab.test", ""},
		"    server: https://192.0.2.5:6443\n":           {},
		"    server: https://localhost:6443\n":           {},
		"    server: https://api-int.:6443\n":            {},
		"server: :::\n- server: https://api-int.x.y\n":   {"api.x.y", "api-int.x.y"},
		"users:\n- name: api-int.lab.test\n  user: {}\n": {},
	} {
		path := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := apiname.ReadKubeconfig(path); got != want.external {
			t.Errorf("%q: got %q, want %q", text, got, want.external)
		}
		if got := apiname.ReadInternal(path); got != want.internal {
			t.Errorf("%q: got the internal name %q, want %q", text, got, want.internal)
		}
	}
	absent := filepath.Join(t.TempDir(), "absent")
	if got := apiname.ReadKubeconfig(absent) + apiname.ReadInternal(absent); got != "" {
		t.Errorf("an absent file: %q", got)
	}
}
