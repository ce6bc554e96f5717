package data

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apiary-net/hived/train/weights"
	"github.com/apiary-net/hived/wire"
)

// write writes files below a new folder.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, s := range files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// refuse opens data and wants an error that wraps weights.ErrFile and holds want.
func refuse(t *testing.T, what string, d Spec, want string) {
	t.Helper()
	if _, err := Open(d); !errors.Is(err, weights.ErrFile) || !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("%s: %v, want %q", what, err, want)
	}
}

func picture(w, h int, shade func(x, y int) uint8) string {
	m := image.NewGray(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			m.SetGray(x, y, color.Gray{Y: shade(x, y)})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		panic(err)
	}
	return b.String()
}

func TestImageFolder(t *testing.T) {
	files := map[string]string{}
	for i := range 40 {
		files[fmt.Sprintf("%s/%d.png", []string{"bee", "wasp"}[i%2], i)] = picture(9+i%3, 8, func(x, y int) uint8 { return uint8(x*y + i) })
	}
	files["bee/copy.png"] = files["bee/0.png"]
	files["bee/notes.txt"] = "no image"
	dir := write(t, files)
	spec := Spec{Format: "images", Path: dir, Height: 6, Width: 5, SplitSpec: SplitSpec{Test: 0.2, Valid: 0.2}, Crop: 1, Flip: "hv", Jitter: 10}
	d, err := Open(spec)
	if err != nil {
		t.Fatal(err)
	}
	l := d.(*labelled)
	if n := d.Len(Train) + d.Len(Valid) + d.Len(Test); n != 40 || l.copies != 1 || len(l.classes) != 2 || l.classes[1] != "wasp" {
		t.Errorf("%d samples, %d copies, classes %v", n, l.copies, l.classes)
	}
	x := Batch{Float: make([]float32, 2*90), Labels: make([]int32, 2)}
	if err := d.Batch(Train, []int{0, 0}, &x); err != nil || !slices.Equal(x.Float[:90], x.Float[90:]) {
		t.Errorf("the same sample twice: %v", err)
	}
	y := Batch{Float: make([]float32, 2*90), Labels: make([]int32, 2), Keys: []uint64{5, 6}}
	if err := d.Batch(Train, []int{0, 0}, &y); err != nil || slices.Equal(y.Float[:90], y.Float[90:]) || slices.Equal(y.Float[:90], x.Float[:90]) {
		t.Errorf("two keys give one image: %v", err)
	}
	if err := d.Batch(Train, []int{d.Len(Train)}, &x); err == nil {
		t.Error("a sample behind the last is read")
	}
	a, _ := d.Digest()
	files["bee/0.png"] = picture(9, 8, func(int, int) uint8 { return 3 })
	spec.Path = write(t, files)
	other, err := Open(spec)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := other.Digest(); a == b {
		t.Error("another image leaves the digest")
	}
}

func TestImageRefusals(t *testing.T) {
	ok, huge := picture(4, 4, func(int, int) uint8 { return 1 }), picture(4, 4, func(int, int) uint8 { return 9 })
	b := []byte(huge)
	binary.BigEndian.PutUint32(b[16:], 5000) // width and height, with a good checksum
	binary.BigEndian.PutUint32(b[20:], 5000)
	binary.BigEndian.PutUint32(b[29:], crc32.ChecksumIEEE(b[12:29]))
	spec := func(files map[string]string) Spec { return Spec{Format: "images", Path: write(t, files)} }
	refuse(t, "empty folder", spec(nil), "no file under")
	refuse(t, "no classes", spec(map[string]string{"a.png": ok}), "no folder that would name its class")
	refuse(t, "one class", spec(map[string]string{"a/a.png": ok}), "1 classes")
	refuse(t, "unreadable", spec(map[string]string{"a/a.png": ok, "b/b.png": "hello"}), "b/b.png")
	refuse(t, "empty image", spec(map[string]string{"a/a.png": ok, "b/b.png": ""}), "b/b.png: the file is empty")
	refuse(t, "lies about its size", spec(map[string]string{"a/a.png": ok, "b/b.png": string(b)}), "b/b.png: its header says 5000 x 5000 pixels")
	refuse(t, "no folder", Spec{Format: "images", Path: filepath.Join(t.TempDir(), "gone")}, "gone")
	refuse(t, "not a zip", Spec{Format: "images", Path: filepath.Join(write(t, map[string]string{"x.zip": "PK"}), "x.zip")}, "zip")
	labels := spec(map[string]string{"a.png": ok, "l.csv": "name,label\na.png,1\n"})
	labels.Labels = filepath.Join(labels.Path, "l.csv")
	refuse(t, "labels without file", labels, `no column "file"`)
	twice := spec(map[string]string{"a.png": ok, "l.csv": "file,label\na.png,1\na.png,2\n"})
	twice.Labels = filepath.Join(twice.Path, "l.csv")
	refuse(t, "labels that disagree", twice, "l.csv:3")
	for _, d := range []Spec{{Height: 2}, {Crop: 70}, {Flip: "x"}, {Jitter: 99}, {LabelPattern: "("}, {LabelPattern: "x"}, {SplitSpec: SplitSpec{Folds: 1}}, {SplitSpec: SplitSpec{Test: 0.9}}} {
		d.Format, d.Path = "images", write(t, map[string]string{"a/a.png": ok, "b/b.png": huge})
		if _, err := Open(d); err == nil {
			t.Errorf("%+v is accepted", d)
		}
	}
	if _, err := Open(Spec{Format: "pictures", Path: "x"}); err == nil || !strings.Contains(err.Error(), "images") {
		t.Errorf("unknown format: %v", err)
	}
	if _, err := Open(Spec{Format: "images"}); err == nil {
		t.Error("no path is accepted")
	}
}

// TestResize compares with averages in floating point.
func TestResize(t *testing.T) {
	for _, c := range [][4]int{{7, 5, 3, 2}, {4, 4, 9, 11}, {6, 6, 6, 6}, {1, 1, 4, 4}, {13, 2, 4, 1}} {
		h, w, nh, nw := c[0], c[1], c[2], c[3]
		m := image.NewGray(image.Rect(0, 0, w, h))
		for i := range m.Pix {
			m.Pix[i] = uint8(i * 37)
		}
		got := resize(m, nh, nw, 3)
		for y := range nh {
			for x := range nw {
				sum := 0.0
				for sy := range h {
					for sx := range w {
						oy := math.Max(0, math.Min(float64(sy+1), float64((y+1)*h)/float64(nh))-math.Max(float64(sy), float64(y*h)/float64(nh)))
						ox := math.Max(0, math.Min(float64(sx+1), float64((x+1)*w)/float64(nw))-math.Max(float64(sx), float64(x*w)/float64(nw)))
						sum += oy * ox * float64(m.GrayAt(sx, sy).Y)
					}
				}
				want := sum * float64(nh*nw) / float64(h*w)
				if g := float64(got[(y*nw+x)*3+1]); math.Abs(g-want) > 1.01 {
					t.Fatalf("%v: pixel %d,%d is %v, want %.2f", c, x, y, g, want)
				}
			}
		}
	}
}

// tone is a WAV file of a sine.
func tone(rate, n int, hertz float64) []byte {
	b := append([]byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00"), binary.LittleEndian.AppendUint32(nil, uint32(rate))...)
	b = binary.LittleEndian.AppendUint32(b, uint32(2*rate))
	b = append(b, 2, 0, 16, 0, 'd', 'a', 't', 'a')
	b = binary.LittleEndian.AppendUint32(b, uint32(2*n))
	for i := range n {
		b = binary.LittleEndian.AppendUint16(b, uint16(int16(16000*math.Sin(2*math.Pi*hertz*float64(i)/float64(rate)))))
	}
	return b
}

// TestMelFindsTones checks the loudest band of tones at odd rates.
func TestMelFindsTones(t *testing.T) {
	m, err := newMel(Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if m.frames != 62 || m.bands != 40 || m.frame != 256 {
		t.Fatalf("%d frames of %d samples, %d bands", m.frames, m.frame, m.bands)
	}
	for _, rate := range []int{8000, 6300, 22050, 44100} {
		last := -1
		for _, hertz := range []float64{300, 700, 1300, 2500} {
			s, err := decodeWAV(tone(rate, rate, hertz))
			if err != nil {
				t.Fatal(err)
			}
			row, best := m.apply(s)[30*40:][:40], 0
			for j, e := range row {
				if e > row[best] {
					best = j
				}
			}
			top := 2595 * math.Log10(1+4000.0/700)
			want := 2595*math.Log10(1+hertz/700)/top*41 - 1
			if math.Abs(float64(best)-want) > 1.2 || best <= last {
				t.Errorf("%v Hz at %d: band %d, want %.1f", hertz, rate, best, want)
			}
			last = best
		}
	}
}

func TestSoundRefusals(t *testing.T) {
	ok, bad := string(tone(8000, 900, 300)), tone(8000, 900, 400)
	put := func(at int, v ...byte) string {
		b := bytes.Clone(bad)
		copy(b[at:], v)
		return string(b)
	}
	for what, c := range map[string][2]string{
		"no channels":   {put(22, 0, 0), "0 channels"},
		"rate":          {put(24, 1, 0, 0, 0), "rate is 1 Hz"},
		"rate too high": {put(24, 0xFF, 0xFF, 0xFF, 0xFF), "rate"},
		"bits":          {put(34, 99), "bits"},
		"align":         {put(32, 7), "the header says 7"},
		"codec":         {put(20, 0x55), "format is 85"},
		"no data":       {put(36, 'l', 'i', 's', 't'), "no data chunk"},
		"cut":           {string(bad[:44]), "no whole frame"},
		"MP3":           {"ID3\x04 something else", "no WAVE file"},
	} {
		refuse(t, what, Spec{Format: "wav", Path: write(t, map[string]string{"a/a.wav": ok, "b/b.wav": c[0]})}, c[1])
	}
	for _, d := range []Spec{{Rate: 3}, {Mels: 1}, {Seconds: 900}, {Hop: 9}, {Mask: 99}, {Crop: 99}} {
		d.Format, d.Path = "wav", write(t, map[string]string{"a/a.wav": ok, "b/b.wav": string(bad)})
		if _, err := Open(d); err == nil {
			t.Errorf("%+v is accepted", d)
		}
	}
}

func TestTables(t *testing.T) {
	dir := write(t, map[string]string{"t.csv": "\xef\xbb\xbfx;y;who;label\n1,5;\"2\";a;u\n2,5;NA;b;v\n3,5;4;c;u\n1,5;\"2\";a;u\n"})
	d, err := Open(Spec{Format: "csv", Path: filepath.Join(dir, "t.csv")})
	if err != nil {
		t.Fatal(err)
	}
	l := d.(*labelled)
	if f := d.Form(); f.Size() != 2 || f.Classes != 2 || d.Len(Train) != 3 || l.copies != 1 {
		t.Fatalf("%+v, %d samples, %d copies", f, d.Len(Train), l.copies)
	}
	x := Batch{Float: make([]float32, 6), Labels: make([]int32, 3)}
	if err := d.Batch(Train, []int{0, 1, 2}, &x); err != nil || x.Labels[1] != 1 || x.Float[3] != 0 || math.Abs(float64(x.Float[0]+x.Float[4])) > 1e-6 || x.Float[2] != 0 {
		t.Errorf("%v %v, %v", x.Float, x.Labels, err)
	}
	for what, c := range map[string][2]string{
		"no rows":       {"x,label\n", "no row"},
		"short row":     {"x,label\n1,a\n2\n", "line 3 has 1 cells"},
		"no label":      {"x,y\n1,2\n", `no column "label"`},
		"empty label":   {"x,label\n1,a\n2,\n", "t.csv:3: the label is empty"},
		"column twice":  {"x,x,label\n1,2,a\n", "twice"},
		"no numbers":    {"x,label\na,a\nb,b\n", "no column of numbers"},
		"one class":     {"x,label\n1,a\n2,a\n", "1 classes"},
		"open quote":    {"x,label\n\"1,a\n", "quote"},
		"infinite cell": {"x,label\ninf,a\n1,b\n", "no column of numbers"},
	} {
		refuse(t, what, Spec{Format: "csv", Path: filepath.Join(write(t, map[string]string{"t.csv": c[0]}), "t.csv")}, c[1])
	}
	refuse(t, "named column of text", Spec{Format: "csv", Columns: []string{"x"}, Path: filepath.Join(write(t, map[string]string{"t.csv": "x,label\n1,a\nbee,b\n"}), "t.csv")}, `t.csv:3: column "x": "bee" is no number`)
}

func TestUnits(t *testing.T) {
	for h, want := range map[string]float32{"temp (°F)": 100, "Temperature_F": 100, "temperature": 212, "temp (°C)": 212} {
		if got := unit(h)(212); got != want {
			t.Errorf("212 of %q is %v, want %v", h, got, want)
		}
	}
	if got := unit("T (K)")(273.15); got != 0 {
		t.Errorf("273.15 K is %v", got)
	}
}

func TestStamps(t *testing.T) {
	want := time.Date(2021, 6, 19, 4, 5, 0, 0, time.UTC)
	s := &stamps{dayFirst: true}
	for _, in := range []string{"2021-06-19 04:05:00+00:00", "2021-06-19T00:05:00-04:00", "2021-06-19 04:05", "19/06/2021 04:05", "1624075500", "1624075500000", "19.06.2021 04:05", " 2021-06-19T04:05:00Z "} {
		if got, err := s.parse(in); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
	if got, err := (&stamps{monthFirst: true}).parse("6/19/2021 04:05"); err != nil || !got.Equal(want) {
		t.Errorf("month first: %v, %v", got, err)
	}
	for _, in := range []string{"", "yesterday", "12", "99999999999999", "0021-01-01", "2021-13-01"} {
		if got, err := s.parse(in); err == nil {
			t.Errorf("%q is %v", in, got)
		}
	}
	for _, both := range []stamps{{}, {true, true}} {
		if _, err := both.parse("01/02/2021"); err == nil {
			t.Errorf("%+v: the order of 01/02/2021 is guessed", both)
		}
	}
	var learnt stamps
	learnt.learn("01/02/2021")
	learnt.learn("25/02/2021 10:00")
	if learnt != (stamps{dayFirst: true}) {
		t.Errorf("%+v", learnt)
	}
}

// TestSplitsHold checks that a group stays whole, that shares are near what was
// asked, that folds cover everything once, and that order does not matter.
func TestSplitsHold(t *testing.T) {
	at := func(s SplitSpec, i int, group string) string {
		p, err := newSplitter(s)
		if err != nil {
			t.Fatal(err)
		}
		return p.of("", group, wire.Sum(fmt.Append(nil, i)))
	}
	count := map[string]int{}
	for i := range 4000 {
		count[at(SplitSpec{Test: 0.2, Valid: 0.25}, i, "")]++
	}
	if count[Test] < 720 || count[Test] > 880 || count[Valid] < 720 || count[Valid] > 880 {
		t.Errorf("%v of 4000, want 800 and 800 held out", count)
	}
	for i := range 200 {
		tests := 0
		for f := range 5 {
			s := SplitSpec{Folds: 5, Fold: f}
			if at(s, i, "") == Test {
				tests++
			}
			if at(s, i, fmt.Sprint(i%7)) != at(s, i+7, fmt.Sprint(i%7)) {
				t.Fatalf("group %d is on two sides", i%7)
			}
		}
		if tests != 1 {
			t.Fatalf("sample %d is in %d of 5 test splits", i, tests)
		}
	}
	if at(SplitSpec{TestGroups: []string{"3"}}, 1, "3") != Test || at(SplitSpec{TestGroups: []string{"3"}}, 1, "4") == Test {
		t.Error("test_groups")
	}
	p, _ := newSplitter(SplitSpec{TestPattern: "_1"})
	if p.of("a_1.wav", "", wire.Sum([]byte("x"))) != Test || p.of("a_2.wav", "", wire.Sum([]byte("x"))) != "" || p.copies != 1 {
		t.Error("a copy of a test sample is used again")
	}
}

func FuzzWAV(f *testing.F) {
	f.Add(tone(8000, 3, 300))
	f.Add([]byte("RIFX\x00\x00\x00\x00WAVEdata\x00\x00\x00\x04abcd"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeWAV(b)
		if err == nil && (len(s.samples) == 0 || len(s.samples) > len(b) || s.rate < 100 || s.rate > maxRate) {
			t.Fatalf("%d samples at %d Hz of %d bytes", len(s.samples), s.rate, len(b))
		}
	})
}

func FuzzImage(f *testing.F) {
	f.Add([]byte(picture(3, 2, func(x, _ int) uint8 { return uint8(x) })))
	f.Add([]byte("\xff\xd8\xff\xe1\x00\x20Exif\x00\x00II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00\x06\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if o := orientation(b); len(b) > 2 && (o < 1 || o > 8) {
			t.Fatalf("orientation %d", o)
		}
		if len(b) > 24 && bytes.HasPrefix(b, []byte("\x89PNG")) && binary.BigEndian.Uint64(b[16:])&^(511<<32|511) != 0 {
			return // large pictures are slow, not wrong
		}
		m, err := decodeImage(b)
		if err == nil && m.Bounds().Dx()*m.Bounds().Dy() < 1<<16 && len(resize(m, 4, 5, 3)) != 60 {
			t.Fatal("resized to another size")
		}
	})
}

func FuzzTable(f *testing.F) {
	f.Add([]byte("a;b\n1,5;x\n"), true)
	f.Add([]byte("\xef\xbb\xbfa,b\n\"1,000\",2\n"), false)
	f.Fuzz(func(t *testing.T, b []byte, lenient bool) {
		x, err := parseTable(b, lenient)
		if err != nil {
			return
		}
		for i, row := range x.rows {
			if len(row) != len(x.header) {
				t.Fatalf("row %d has %d cells of %d", i, len(row), len(x.header))
			}
			for _, c := range row {
				if v, missing, ok := x.number(c); ok && !missing && v-v != 0 {
					t.Fatalf("%q is %v", c, v)
				}
			}
		}
	})
}

func FuzzStamp(f *testing.F) {
	f.Add("2021-06-19 04:05:00+00:00", true)
	f.Add("19/06/2021", true)
	f.Fuzz(func(t *testing.T, s string, day bool) {
		got, err := (&stamps{dayFirst: day}).parse(s)
		if err == nil && (got.Year() < 1970 || got.Year() > 2300) {
			t.Fatalf("%q is %v", s, got)
		}
	})
}

// FuzzLabels reads a file of labels: what is taken has a place for each file's name,
// and no group where none was asked for.
func FuzzLabels(f *testing.F) {
	f.Add([]byte("file,label\na/1.png,cat\n2.png,dog\n"), "")
	f.Add([]byte("file,label,who\n1.png,cat,me\n1.png,cat,me\n"), "who")
	f.Add([]byte("file,label,\n1.png,cat,x\n"), "")
	f.Fuzz(func(t *testing.T, b []byte, group string) {
		tg := &tagger{spec: Spec{Group: group}}
		if err := tg.readRows(b); err != nil {
			return
		}
		if len(tg.rows) > len(b) {
			t.Errorf("%d files of %d bytes", len(tg.rows), len(b))
		}
		for name, row := range tg.rows {
			if strings.Contains(name, "/") && name != "/" || group == "" && row.group != "" {
				t.Errorf("file %q of group %q", name, row.group)
			}
		}
	})
}

// FuzzJSONLines reads lines of JSON: texts are no longer than their lines allow, and
// their names tell the lines apart.
func FuzzJSONLines(f *testing.F) {
	f.Add([]byte("{\"text\":\"a\"}\n\n {\"text\":[\"b\",\"c\"],\"n\":1}\n"), "text")
	f.Add([]byte("{\"text\":null}"), "text")
	f.Add([]byte("{\"text\":\"\xff\xff\"}"), "text")
	f.Fuzz(func(t *testing.T, b []byte, field string) {
		size, seen := 0, map[string]bool{}
		err := jsonLines("x", b, field, func(name string, text []byte) error {
			if size += len(text); seen[name] {
				t.Errorf("%s comes twice", name)
			}
			seen[name] = true
			return nil
		})
		if err == nil && (size > 3*len(b) || len(seen) > bytes.Count(b, []byte("\n"))+1) {
			t.Errorf("%d bytes in %d texts of %d bytes", size, len(seen), len(b))
		}
	})
}
