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
	"slices"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/browser"
)

const (
	images         = "../../../docs/images"
	imageHeight    = 1150
	maxImageBytes  = 150_000
	paletteEntries = 256
	maxDistance    = 12 // of a colour to its replacement, of 255 in each component
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
			must(t, os.WriteFile(document, compress(t, picture), 0o644))
		}
		saved, err := os.ReadFile(document)
		must(t, err)
		kept, err := png.DecodeConfig(bytes.NewReader(saved))
		must(t, err)
		if len(saved) > maxImageBytes || kept.Width != picture.Bounds().Dx() || kept.Height != picture.Bounds().Dy() {
			t.Errorf("%s has %d bytes and %d × %d pixels: run this test with -update", document, len(saved), kept.Width, kept.Height)
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

// compress returns a PNG with a palette: the most frequent colours, without those that are
// close to another one.
func compress(t *testing.T, picture image.Image) []byte {
	t.Helper()
	counts := map[color.Color]int{}
	for y := picture.Bounds().Min.Y; y < picture.Bounds().Max.Y; y++ {
		for x := picture.Bounds().Min.X; x < picture.Bounds().Max.X; x++ {
			counts[picture.At(x, y)]++
		}
	}
	var colours color.Palette
	for c := range counts {
		colours = append(colours, c)
	}
	slices.SortFunc(colours, func(a, b color.Color) int { return counts[b] - counts[a] })
	palette := color.Palette{colours[0]}
	for _, c := range colours {
		if len(palette) < paletteEntries && distance(c, palette.Convert(c)) > maxDistance {
			palette = append(palette, c)
		}
	}
	small := image.NewPaletted(picture.Bounds(), palette)
	nearest := map[color.Color]uint8{}
	for y := picture.Bounds().Min.Y; y < picture.Bounds().Max.Y; y++ {
		for x := picture.Bounds().Min.X; x < picture.Bounds().Max.X; x++ {
			c := picture.At(x, y)
			if _, known := nearest[c]; !known {
				nearest[c] = uint8(small.Palette.Index(c))
			}
			small.SetColorIndex(x, y, nearest[c])
		}
	}
	var b bytes.Buffer
	must(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, small))
	return b.Bytes()
}

// distance returns the largest difference of a component.
func distance(a, b color.Color) (d int) {
	r1, g1, b1, _ := a.RGBA()
	r2, g2, b2, _ := b.RGBA()
	for _, p := range [][2]uint32{{r1, r2}, {g1, g2}, {b1, b2}} {
		d = max(d, int(max(p[0], p[1])-min(p[0], p[1]))>>8)
	}
	return d
}
