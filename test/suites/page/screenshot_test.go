// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/browser"
)

const (
	images      = "../../../docs/images"
	imageHeight = 1150
)

// expectScreenshots expects a light page and a dark one. The documentation has both.
func expectScreenshots(t *testing.T, b *browser.Browser, path string) {
	t.Helper()
	for _, device := range []string{"light", "dark"} {
		p, err := b.Open(t.Context(), path, views()[device])
		must(t, err)
		text, err := p.Screenshot(t.Context(), imageHeight)
		must(t, err)
		picture, err := png.Decode(bytes.NewReader(text))
		must(t, err)
		if light := brightness(picture); (light > 0.8) != (device == "light") || (light < 0.2) != (device == "dark") {
			t.Errorf("the %s page has a mean brightness of %.2f", device, light)
		}
		document := filepath.Join(images, fmt.Sprintf("status-%s.png", device))
		if *update {
			must(t, os.MkdirAll(images, 0o755))
			must(t, os.WriteFile(document, text, 0o644))
		}
		saved, err := os.ReadFile(document)
		must(t, err)
		kept, err := png.DecodeConfig(bytes.NewReader(saved))
		must(t, err)
		if kept.Width != picture.Bounds().Dx() || kept.Height != picture.Bounds().Dy() {
			t.Errorf("%s has %d × %d pixels: run this test with -update", document, kept.Width, kept.Height)
		}
	}
}

// brightness returns the mean of all pixels, from 0 to 1.
func brightness(picture image.Image) float64 {
	sum, n := 0.0, 0
	for y := picture.Bounds().Min.Y; y < picture.Bounds().Max.Y; y += 4 {
		for x := picture.Bounds().Min.X; x < picture.Bounds().Max.X; x += 4 {
			sum += float64(color.GrayModel.Convert(picture.At(x, y)).(color.Gray).Y) / 255
			n++
		}
	}
	return sum / float64(n)
}
