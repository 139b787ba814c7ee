// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"testing"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }
