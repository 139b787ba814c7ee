// SPDX-License-Identifier: Apache-2.0

package page

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestContrast: each text has a contrast of at least 4.5 to 1 to its background
// (https://www.w3.org/TR/WCAG22/#contrast-minimum), and a bar of at least 3 to 1 to the
// card if it has no label.
func TestContrast(t *testing.T) {
	t.Parallel()
	light, dark, _ := strings.Cut(rules, "@media screen and (prefers-color-scheme:dark)")
	dark, _, _ = strings.Cut(dark, "@media")
	for theme, text := range map[string]string{"light": light, "dark": dark} {
		colours := map[string]float64{}
		for _, m := range regexp.MustCompile(`--([a-z-]+):#([0-9a-f]{6})`).FindAllStringSubmatch(text, -1) {
			colours[m[1]] = luminance(t, m[2])
		}
		for _, p := range []struct {
			front, back string
			least       float64
		}{
			{"ink", "card", 7},
			{"ink", "page", 7},
			{"ink", "bad-soft", 7},
			{"ink", "warning-soft", 7},
			{"ink", "neutral-soft", 7},
			{"muted", "card", 4.5},
			{"muted", "page", 4.5},
			{"muted", "neutral-soft", 4.5},
			{"good", "card", 4.5},
			{"warning", "card", 4.5},
			{"bad", "card", 4.5},
			{"good", "good-soft", 4.5},
			{"warning", "warning-soft", 4.5},
			{"bad", "bad-soft", 4.5},
			{"on-held", "held", 4.5},
			{"on-standby", "standby", 4.5},
			{"held", "card", 3},
			{"held", "track", 3},
			{"held", "standby", 2.5},
		} {
			front, known := colours[p.front]
			back, too := colours[p.back]
			if !known || !too {
				t.Fatalf("%s: no colour %s or %s", theme, p.front, p.back)
			}
			if c := (max(front, back) + 0.05) / (min(front, back) + 0.05); c < p.least {
				t.Errorf("%s: %s on %s has a contrast of %.2f, want %.1f", theme, p.front, p.back, c, p.least)
			}
		}
	}
}

// luminance is the relative luminance of a colour in sRGB
// (https://www.w3.org/TR/WCAG22/#dfn-relative-luminance).
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		v, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(v) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}
