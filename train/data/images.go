package data

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"strings"

	"github.com/apiary-net/hived/train/weights"
)

// Limits of a decoded image: in all, and for each byte of its file, since a header
// may claim what no data follow (deflate makes at most 1032 bytes of one).
const (
	maxPixels        = 40 << 20
	maxPixelsPerByte = 4096
)

// openImages reads a folder of PNG and JPEG files.
func openImages(d Spec) (Set, error) {
	h, w, c := d.Height, d.Width, 3
	if h == 0 {
		h = 64
	}
	if w == 0 {
		w = h
	}
	if d.Grey {
		c = 1
	}
	if h < 4 || w < 4 || h > 1024 || w > 1024 || d.Crop < 0 || d.Crop >= min(h, w) || d.Jitter < 0 || d.Jitter > 90 || strings.Trim(d.Flip, "hv") != "" {
		return nil, fmt.Errorf("images: height %d, width %d, crop %d, jitter %d, flip %q: want sizes 4 to 1024, a crop below them, jitter 0 to 90, flip of h and v", h, w, d.Crop, d.Jitter, d.Flip)
	}
	l := newLabelled("images", Form{Kind: "image", Dims: []int{h, w, c}})
	l.augment = func(x []float32, key uint64) { augmentImage(x, h, w, c, d, key) }
	return readFiles(l, d, []string{".png", ".jpg", ".jpeg"}, func(name string, b []byte) error {
		m, err := decodeImage(b)
		if err != nil {
			return err
		}
		l.pixels = append(l.pixels, resize(m, h, w, c)...)
		return nil
	}, 1)
}

// readFiles reads tagged files into l: put appends one sample of width bytes an
// element.
func readFiles(l *labelled, d Spec, exts []string, put func(name string, b []byte) error, width int) (out *labelled, err error) {
	src, err := openSource(d.Path, exts)
	defer func() { err = errors.Join(err, src.close()) }()
	if err != nil {
		return nil, err
	}
	if err := l.room(len(src.files), width); err != nil {
		return nil, fmt.Errorf("open %s: %s: %w", l.name, d.Path, err)
	}
	tags, err := newTagger(d)
	if err != nil {
		return nil, err
	}
	sp, err := newSplitter(d.SplitSpec)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range src.files {
		g, ok, err := tags.of(f.name)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", l.name, err)
		}
		if !ok {
			continue
		}
		b, err := f.read()
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", l.name, err)
		}
		digest := contentDigest(b, g.label)
		split := sp.of(f.name, g.group, digest)
		if split == "" {
			continue
		}
		if err := put(f.name, b); err != nil {
			return nil, fmt.Errorf("open %s: %s: %w: %w", l.name, f.name, err, weights.ErrFile)
		}
		l.splits[split] = append(l.splits[split], len(names))
		names, l.digests = append(names, g.label), append(l.digests, digest)
	}
	return l.finish(names, sp.copies)
}

// decodeImage decodes PNG or JPEG by content, whatever the file is called, and
// turns it as its EXIF orientation says.
func decodeImage(b []byte) (image.Image, error) {
	head, decode := png.DecodeConfig, png.Decode
	turn := 1
	switch {
	case bytes.HasPrefix(b, []byte("\x89PNG\r\n\x1a\n")):
	case bytes.HasPrefix(b, []byte("\xff\xd8")):
		head, decode, turn = jpeg.DecodeConfig, jpeg.Decode, orientation(b)
	case len(b) > 12 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP":
		return nil, fmt.Errorf("it is a WebP image, want PNG or JPEG")
	default:
		return nil, fmt.Errorf("it starts with % x, which is neither PNG nor JPEG", b[:min(4, len(b))])
	}
	c, err := head(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("decode the header: %w", err)
	}
	if c.Width < 1 || c.Height < 1 || int64(c.Width)*int64(c.Height) > maxPixels {
		return nil, fmt.Errorf("it is %d x %d pixels, limit %d in all", c.Width, c.Height, maxPixels)
	}
	if c.Width*c.Height > maxPixelsPerByte*len(b) {
		return nil, fmt.Errorf("its header says %d x %d pixels, its file has %d bytes", c.Width, c.Height, len(b))
	}
	m, err := decode(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	if turn == 1 {
		return m, nil
	}
	return turned{m, turn}, nil
}

// orientation reads tag 0x0112 of a JPEG's EXIF segment, 1 where there is none.
func orientation(b []byte) int {
	for at := 2; at+4 <= len(b) && b[at] == 0xFF && b[at+1] != 0xDA; {
		n := int(b[at+2])<<8 | int(b[at+3])
		seg := b[min(at+4, len(b)):min(at+2+max(n, 2), len(b))]
		if b[at+1] == 0xE1 && bytes.HasPrefix(seg, []byte("Exif\x00\x00")) {
			return exifOrientation(seg[6:])
		}
		at += 2 + max(n, 2)
	}
	return 1
}

// exifOrientation looks through the first directory of a TIFF header.
func exifOrientation(t []byte) int {
	if len(t) < 8 {
		return 1
	}
	le := t[0] == 'I'
	num := func(at, n int) int {
		v := 0
		for i := range n {
			if at+i >= len(t) || at < 0 {
				return 0
			}
			k := i
			if le {
				k = n - 1 - i
			}
			v = v<<8 | int(t[min(at+k, len(t)-1)])
		}
		return v
	}
	dir := num(4, 4)
	for i := range num(dir, 2) {
		e := dir + 2 + 12*i
		if e+12 > len(t) {
			break
		}
		if num(e, 2) == 0x0112 {
			if v := num(e+8, 2); v >= 1 && v <= 8 {
				return v
			}
		}
	}
	return 1
}

// turned is an image as its EXIF orientation shows it.
type turned struct {
	image.Image
	how int
}

func (t turned) Bounds() image.Rectangle {
	b := t.Image.Bounds()
	if t.how >= 5 {
		return image.Rect(0, 0, b.Dy(), b.Dx())
	}
	return image.Rect(0, 0, b.Dx(), b.Dy())
}

func (t turned) At(x, y int) color.Color {
	b := t.Image.Bounds()
	w, h := b.Dx()-1, b.Dy()-1
	switch t.how {
	case 2:
		x = w - x
	case 3:
		x, y = w-x, h-y
	case 4:
		y = h - y
	case 5:
		x, y = y, x
	case 6:
		x, y = y, h-x
	case 7:
		x, y = w-y, h-x
	case 8:
		x, y = w-y, x
	}
	return t.Image.At(b.Min.X+x, b.Min.Y+y)
}

// resize averages the source over each target pixel's area, in integers: the same
// bytes on every machine. c is 3 (RGB) or 1 (luma of ITU-R BT.601); alpha lies on
// black.
func resize(m image.Image, h, w, c int) []uint8 {
	b := m.Bounds()
	sh, sw := b.Dy(), b.Dx()
	src := make([]uint8, sh*sw*c)
	for y := range sh {
		for x := range sw {
			r, g, bl, _ := m.At(b.Min.X+x, b.Min.Y+y).RGBA()
			at := (y*sw + x) * c
			if c == 1 {
				src[at] = uint8((19595*r + 38470*g + 7471*bl + 1<<15) >> 24)
				continue
			}
			src[at], src[at+1], src[at+2] = uint8(r>>8), uint8(g>>8), uint8(bl>>8)
		}
	}
	return resizeColumns(resizeRows(src, sh, sw*c, h), h, sw, c, w)
}

// resizeRows changes the number of rows of x [n,row] to m.
func resizeRows(x []uint8, n, row, m int) []uint8 {
	out := make([]uint8, m*row)
	sum := make([]uint64, row)
	for i := range m {
		clear(sum)
		lo, hi := i*n, (i+1)*n // in units of 1/m of a source row
		for s := lo / m; s*m < hi; s++ {
			weight := uint64(min(hi, (s+1)*m) - max(lo, s*m))
			for j, p := range x[s*row:][:row] {
				sum[j] += weight * uint64(p)
			}
		}
		for j, v := range sum {
			out[i*row+j] = uint8((v + uint64(n)/2) / uint64(n))
		}
	}
	return out
}

// resizeColumns changes the number of columns of x [h,n,c] to m.
func resizeColumns(x []uint8, h, n, c, m int) []uint8 {
	out := make([]uint8, 0, h*m*c)
	for i := range h {
		out = append(out, resizeRows(x[i*n*c:][:n*c], n, c, m)...)
	}
	return out
}

// augmentImage moves, mirrors and changes the light of a scaled image by its key.
func augmentImage(x []float32, h, w, c int, d Spec, key uint64) {
	if d.Crop > 0 {
		dy, dx := moves(key, d.Crop)
		shift(x, h, w, c, dy, dx, 0)
	}
	if strings.Contains(d.Flip, "h") && Mix(key+3)&1 == 1 {
		for i := range h {
			mirror(x[i*w*c:][:w*c], c)
		}
	}
	if strings.Contains(d.Flip, "v") && Mix(key+4)&1 == 1 {
		mirror(x, w*c)
	}
	if d.Jitter > 0 {
		unit := func(salt uint64) float32 { return float32(Mix(key+salt)>>40)/(1<<23) - 1 }
		gain, lift := 1+float32(unit(5)*float32(d.Jitter))/100, float32(unit(6)*float32(d.Jitter))/100
		for i, f := range x {
			x[i] = float32(f*gain) + lift
		}
	}
}

// mirror reverses the order of pieces of n elements.
func mirror(x []float32, n int) {
	for i, j := 0, len(x)-n; i < j; i, j = i+n, j-n {
		for k := range n {
			x[i+k], x[j+k] = x[j+k], x[i+k]
		}
	}
}
