// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPublicNames(t *testing.T) {
	t.Parallel()
	got := publicNames([]string{"kubernetes", "api-int.a.b", "API.a.b", "api.a.b", "api.c", "*.apps.a.b"})
	if diff := cmp.Diff([]string{"api.a.b", "api.c"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
