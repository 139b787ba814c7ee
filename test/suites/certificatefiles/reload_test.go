// SPDX-License-Identifier: Apache-2.0

package certificatefiles

import (
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// changes receives an element for each new pair that the API server's code has loaded.
type changes chan struct{}

// Enqueue implements dynamiccertificates.Listener.
func (c changes) Enqueue() { c <- struct{}{} }

// TestReload: kube-apiserver's code loads each of several renewed pairs, which it is not told of.
// It does not poll while it can watch the files, so a renewal without an event would be lost.
func TestReload(t *testing.T) {
	c, ca := newCopier(t, "sh"), authority(t)
	next := func() lab.Identity { return issue(t, ca, lab.ServerCertificate{Names: []string{name}}) }
	c.copied(t, next())
	content, err := dynamiccertificates.NewDynamicSNIContentFromFiles("sni-serving-cert",
		filepath.Join(c.target, "current/tls.crt"), filepath.Join(c.target, "current/tls.key"), name)
	must(t, err)
	loaded := make(changes, 1)
	content.AddListener(loaded)
	go content.Run(t.Context(), 1)
	for range 4 {
		renewed := next()
		c.copied(t, renewed)
		select {
		case <-loaded:
		case <-time.After(time.Minute):
			t.Fatal("the API server's code has not noticed the renewal")
		}
		chain, key := content.CurrentCertKeyContent()
		if string(chain) != string(renewed.Chain) || string(key) != string(renewed.Key) {
			t.Fatal("the API server's code has loaded another pair than the renewed one")
		}
	}
}
