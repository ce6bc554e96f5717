package data

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apiary-net/hived/train/weights"
)

// sharedData returns a folder of the shared test data, or skips.
func sharedData(t *testing.T, name string) string {
	t.Helper()
	root := os.Getenv("HIVED_TEST_DATA")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared", "data")
	}
	dir := filepath.Join(root, name)
	if _, err := os.Stat(dir); err != nil {
		err = fmt.Errorf("no test data: %w; HIVED_TEST_DATA names their folder", err)
		if os.Getenv("HIVED_REQUIRE") == "all" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return dir
}

// uglySounds says of each file how many frames it has at which rate, or why it is
// refused.
var uglySounds = map[string]struct {
	rate, frames int
	refused      string
}{
	"test-8000Hz-le-1ch-1byte-ulaw.wav":                {rate: 8000, frames: 9},
	"test-8000Hz-le-3ch-5S-53bit.wav":                  {rate: 8000, frames: 5},
	"test-8000Hz-le-3ch-5S-64bit.wav":                  {rate: 8000, frames: 5},
	"test-8000Hz-le-3ch-5S-45bit.wav":                  {rate: 8000, frames: 5},
	"test-8000Hz-le-3ch-5S-24bit.wav":                  {rate: 8000, frames: 5},
	"test-8000Hz-be-3ch-5S-24bit.wav":                  {rate: 8000, frames: 5},
	"test-8000Hz-le-3ch-5S-24bit-inconsistent.wav":     {refused: "a frame of 3 channels of 24 bits has 9 bytes"},
	"test-8000Hz-le-4ch-9S-12bit.wav":                  {rate: 8000, frames: 9},
	"test-8000Hz-le-1ch-10S-20bit-extra.wav":           {rate: 1234, frames: 10},
	"test-8000Hz-le-2ch-1byteu.wav":                    {rate: 8000, frames: 800},
	"test-48000Hz-2ch-64bit-float-le-wavex.wav":        {rate: 48000, frames: 480},
	"test-44100Hz-2ch-32bit-float-le.wav":              {rate: 44100, frames: 441},
	"test-44100Hz-le-1ch-4bytes.wav":                   {rate: 44100, frames: 4410},
	"test-44100Hz-be-1ch-4bytes.wav":                   {rate: 44100, frames: 4410},
	"test-44100Hz-le-1ch-4bytes-incomplete-chunk.wav":  {refused: "no data chunk"},
	"test-44100Hz-le-1ch-4bytes-early-eof-no-data.wav": {refused: "data"},
}

// TestUgly walks every file of the folder ugly: each loads right or is refused with
// its reason, and none is forgotten here.
func TestUgly(t *testing.T) {
	root := sharedData(t, "ugly")
	seen := 0
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "README.md" {
			return err
		}
		seen++
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		switch rel, _ := filepath.Rel(root, p); filepath.Dir(rel) {
		case "wav-scipy":
			uglySound(t, d.Name(), b)
		case "img-derived":
			uglyImage(t, d.Name(), b)
		case "model-lfs-pointer":
			if _, err := weights.Open(p); !errors.Is(err, weights.ErrFile) || !strings.Contains(err.Error(), "git-LFS") {
				t.Errorf("%s: %v", rel, err)
			}
		case "csv-usda-honey":
			uglyHoney(t, p)
		case "csv-derived":
			if d.Name() == "hive_3627_glitched.csv" {
				uglyHive(t, p, filepath.Join(filepath.Dir(p), "hive_3627_clean.csv.gz"))
			}
		default:
			t.Errorf("%s: nothing is known of this file", rel)
		}
		return nil
	})
	if err != nil || seen < 30 {
		t.Fatalf("%d files: %v", seen, err)
	}
}

func uglySound(t *testing.T, name string, b []byte) {
	want, ok := uglySounds[name]
	s, err := decodeWAV(b)
	switch {
	case !ok:
		t.Errorf("%s: %d frames at %d Hz, %v: not in the table", name, len(s.samples), s.rate, err)
	case want.refused != "":
		if err == nil || !strings.Contains(err.Error(), want.refused) {
			t.Errorf("%s: %v, want %q", name, err, want.refused)
		}
	case err != nil || s.rate != want.rate || len(s.samples) != want.frames:
		t.Errorf("%s: %d frames at %d Hz, %v, want %d at %d", name, len(s.samples), s.rate, err, want.frames, want.rate)
	}
	for i, x := range s.samples {
		if !(math.Abs(x) <= 1.01) {
			t.Errorf("%s: sample %d is %v", name, i, x)
			break
		}
	}
}

// uglyImages says what a file looks like, or why it is refused.
var uglyImages = map[string]struct {
	w, h    int
	refused string
}{
	"webp_named.jpg":       {refused: "WebP"},
	"exif_rotate6.jpg":     {w: 300, h: 180},
	"rgba.png":             {w: 180, h: 300},
	"bad_crc_iend.png":     {refused: "checksum"},
	"zero_bytes.jpg":       {refused: "neither"},
	"cmyk.jpg":             {w: 180, h: 300},
	"truncated.png":        {refused: "not enough"},
	"bitflips_midscan.jpg": {w: 180, h: 300}, // JPEG has no checksum: nobody can tell
	"jpeg_named.png":       {w: 180, h: 300},
	"truncated_half.jpg":   {refused: "short"},
	"one_pixel.png":        {w: 1, h: 1},
	"gray16.png":           {w: 180, h: 300},
	"palette.png":          {w: 180, h: 300},
	"header_only.jpg":      {refused: "header"},
	"gray_1ch.jpg":         {w: 180, h: 300},
	"truncated_last20.jpg": {refused: "short"},
	"progressive.jpg":      {w: 180, h: 300},
}

func uglyImage(t *testing.T, name string, b []byte) {
	want, ok := uglyImages[name]
	m, err := decodeImage(b)
	switch {
	case !ok:
		t.Errorf("%s: %v: not in the table", name, err)
	case want.refused != "":
		if err == nil || !strings.Contains(err.Error(), want.refused) {
			t.Errorf("%s: %v, want %q", name, err, want.refused)
		}
	case err != nil || m.Bounds().Dx() != want.w || m.Bounds().Dy() != want.h:
		t.Errorf("%s: %v", name, err)
		if m != nil {
			t.Errorf("%s: %v", name, m.Bounds())
		}
	default:
		x := resize(m, 20, 12, 3)
		if len(x) != 720 {
			t.Errorf("%s: %d bytes", name, len(x))
		}
	}
}

// uglyHoney reads thousands with commas and codes; a column of nothing else is
// refused by name.
func uglyHoney(t *testing.T, path string) {
	table, err := readTable(path, false)
	if err != nil {
		t.Fatal(err)
	}
	v, err := table.numbers("Value")
	if err != nil || len(table.rows) != 8475 || v[0] != 7000 || v[1] != 23000 {
		t.Errorf("%d rows, %v, %v", len(table.rows), v[:2], err)
	}
	for _, c := range []string{"Week Ending", "State"} {
		if _, err := table.numbers(c); !errors.Is(err, weights.ErrFile) || !strings.Contains(err.Error(), c) {
			t.Errorf("column %s: %v", c, err)
		}
	}
}

// uglyHive compares what is read of a file full of faults with the clean truth.
func uglyHive(t *testing.T, glitched, clean string) {
	open := func(path string) *series {
		d, err := openSeries(Spec{Format: "series", Path: path, Time: "Date", Series: "Tag number", Targets: []string{"temperature", "humidity"}, History: 24})
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return d.(*series)
	}
	a, b := open(clean), open(glitched)
	t.Logf("left out: %+v of the clean file, %+v of the other", a.Dropped, b.Dropped)
	if len(a.list) != 1 || len(b.list) != 1 {
		t.Fatalf("%d and %d series", len(a.list), len(b.list))
	}
	g, h := &a.list[0], &b.list[0]
	compared, far, lost := 0, 0, 0
	for i := range g.n {
		for c := range 2 {
			x, y := a.at(g, i, c), b.at(h, i+int(g.start-h.start), c)
			switch {
			case x != x:
			case y != y:
				lost++
			default:
				if compared++; math.Abs(float64(x-y)) > 1 {
					far++
				}
			}
		}
	}
	if compared < 700 || lost*20 > compared || far*100 > compared {
		t.Errorf("of %d hourly values %d are lost and %d differ by more than 1", compared, lost, far)
	}
	if n := strings.Join(b.Notes(), "\n"); !strings.Contains(n, "39 rows left out: their series") || strings.Contains(strings.Join(a.Notes(), ""), "left out") {
		t.Errorf("notes: %s; of the clean file %v", n, a.Notes())
	}
	if b.Dropped.Copies == 0 || b.Dropped.Faults == 0 || b.Dropped.Cells == 0 {
		t.Errorf("left out %+v", b.Dropped)
	}
}

// TestSharedData opens real data sets of each format.
func TestSharedData(t *testing.T) {
	root := filepath.Dir(sharedData(t, "ugly"))
	at := func(name string) string { return filepath.Join(root, filepath.FromSlash(name)) }
	for _, c := range []struct {
		spec    Spec
		samples int // of all splits, copies left out
		classes int
	}{
		{Spec{Format: "wav", Path: at("osbh-hive-audio"), Labels: at("osbh-hive-audio/labels.csv"), Rate: 2205, Seconds: 1.2, Hop: 0.05}, 9, 4},
		{Spec{Format: "csv", Path: at("uci-digits/digits.csv.gz"), Label: "65"}, 1797, 10},
		{Spec{Format: "images", Path: at("omniglot/images_background_small1.zip"), LabelPattern: `^(\d+)_`, Height: 28, Grey: true}, 0, 136},
		{Spec{Format: "images", Path: at("varroa-samples"), Height: 20, Width: 16}, 10, 2},
		{Spec{Format: "jsonl", Path: at("fed-shakespeare-roles/clients.jsonl.gz"), Field: "lines", Context: 64}, 0, 256},
		{Spec{Format: "text", Path: at("makemore-names/names.txt.gz"), Context: 32}, 0, 256},
		{Spec{Format: "series", Path: at("bnn-entrance-counts/bees_in_view.csv"), Time: "timestamp", Targets: []string{"bees"}, History: 12}, 0, 0},
		{Spec{Format: "csv", Path: at("bumblebee-colony-weight/bombus.csv"), Label: "habitat", Group: "colony"}, 0, 0},
	} {
		d, err := Open(c.spec)
		if err != nil {
			t.Errorf("%s %s: %v", c.spec.Format, c.spec.Path, err)
			continue
		}
		n := d.Len(Train) + d.Len(Valid) + d.Len(Test)
		t.Logf("%s: %d samples, %+v", c.spec.Path, n, d.Form())
		if c.samples > 0 && n != c.samples || n == 0 || c.classes > 0 && d.Form().Classes != c.classes {
			t.Errorf("%s: %d samples, %+v", c.spec.Path, n, d.Form())
		}
	}
}
