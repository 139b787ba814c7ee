// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"
	"time"
)

func TestTimingHasDefaults(t *testing.T) {
	t.Parallel()
	if got, want := (timing{ProxySilenceLimit: time.Hour}).withDefaults(), (timing{time.Hour, time.Second, 5 * time.Second, 30 * time.Second, 4 * time.Second, time.Second, 2 * time.Second, 10 * time.Second, 0, 0}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
