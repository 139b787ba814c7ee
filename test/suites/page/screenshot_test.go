// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/browser"
)

// images has the pictures of the documentation.
const images = "../../../docs/images"

// pictureHeights bounds the pictures of the documentation, by width.
func pictureHeights() map[int]int { return map[int]int{1280: 1150, narrow: 1400} }

// takePicture takes a picture of a whole page, which `go test -artifacts` keeps, and expects that it
// has the colours of the device. The documentation has the beginning of each picture of a node's
// status, and of a cluster's status on a wide screen.
func takePicture(t *testing.T, p *browser.Page, title, device string) {
	t.Helper()
	whole, err := p.Screenshot(t.Context(), 0)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(t.ArtifactDir(), title+"-"+device+".png"), whole, 0o600))
	picture, err := png.Decode(bytes.NewReader(whole))
	must(t, err)
	dark := strings.HasSuffix(device, "dark")
	if light := brightness(picture); dark && light > 0.2 || !dark && light < 0.8 {
		t.Errorf("the %s page has a mean brightness of %.2f", device, light)
	}
	width := picture.Bounds().Dx()
	if title == "check" || title == "cluster" && width == narrow {
		return
	}
	begin, err := p.Screenshot(t.Context(), pictureHeights()[width])
	must(t, err)
	document := filepath.Join(images, title+"-"+device+".png")
	if *update {
		must(t, os.MkdirAll(images, 0o755))
		must(t, os.WriteFile(document, begin, 0o644))
	}
	saved, err := os.ReadFile(document)
	must(t, err)
	kept, err := png.DecodeConfig(bytes.NewReader(saved))
	must(t, err)
	if kept.Width != width || kept.Height != pictureHeights()[width] {
		t.Errorf("%s has %d × %d pixels: run make pictures", document, kept.Width, kept.Height)
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
