// SPDX-License-Identifier: Apache-2.0

package egress_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/egress"
)

func TestStore(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	k := egress.NewStore(dir)
	if _, _, err := k.Load(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	s := egress.Configuration{
		Settings:  settings(t, "HTTP_PROXY=http://user:"+secret+"@p.test:3128"),
		Endpoints: []string{"http://a.test"},
	}
	s.Roots = [][]byte{{1, 2}, {3}}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 2 {
		if err := k.Save(s, at); err != nil {
			t.Fatal(err)
		}
	}
	got, when, err := k.Load()
	if err != nil || !got.Equal(s) || !when.Equal(at) || got.Settings.Source != s.Settings.Source {
		t.Errorf("got %v %v, %v", got, when, err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	info, err := files[0].Info()
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	path := filepath.Join(dir, files[0].Name())
	for _, broken := range []string{
		`{"httpProxy":"s3cret`, `{"httpProxy":"socks5://s3cret@p"}`, `{"roots":["s3cret!"]}`,
		"",
	} {
		if err := os.WriteFile(path, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := k.Load(); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", broken, err)
		}
	}
}
