package codec

import (
	"bytes"
	"errors"
	"math"
	"math/rand"
	"testing"

	"github.com/apiary-net/hived/tensorops/num"
)

func each(t *testing.T, f func(t *testing.T, c Codec)) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			c, err := New(name)
			if err != nil {
				t.Fatal(err)
			}
			if c.Spec() != (Spec{name, Chunk}) || c.Phases() != 1 {
				t.Fatalf("spec %v, %d phases", c.Spec(), c.Phases())
			}
			f(t, c)
		})
	}
}

// TestNothingIsLost checks that what was sent so far plus the residual is all that
// was asked to be sent, within rounding.
func TestNothingIsLost(t *testing.T) {
	each(t, func(t *testing.T, c Codec) {
		r := rand.New(rand.NewSource(1))
		for _, n := range []int{0, 1, 7, Chunk, Chunk + 1, 3*Chunk - 5} {
			st := &State{Residual: make([]float32, n)}
			sum, sent, y := make([]float64, n), make([]float64, n), make([]float32, n)
			for range 20 {
				x := make([]float32, n)
				for i := range x {
					x[i] = float32(r.NormFloat64())
					sum[i] += float64(x[i])
				}
				b, err := c.Encode(st, 0, []byte("keep"), x)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.HasPrefix(b, []byte("keep")) || len(b) != 4+c.MaxSize(n) {
					t.Fatalf("%d values: %d bytes, prefix %q", n, len(b), b[:4])
				}
				if err := c.Decode(0, y, b[4:]); err != nil {
					t.Fatal(err)
				}
				for i, f := range y {
					sent[i] += float64(f)
				}
			}
			for i := range sum {
				if math.Abs(sum[i]-sent[i]-float64(st.Residual[i])) > 1e-4 {
					t.Fatalf("value %d: asked %v, sent %v, residual %v", i, sum[i], sent[i], st.Residual[i])
				}
				if math.Abs(float64(st.Residual[i])) > 0.06 {
					t.Fatalf("value %d: residual %v grows", i, st.Residual[i])
				}
			}
		}
	})
}

func TestSaturates(t *testing.T) {
	each(t, func(t *testing.T, c Codec) {
		inf := float32(math.Inf(1))
		x := []float32{inf, -inf, maxFloat, -maxFloat, 0x1p-149, -0x1p-149, 0}
		for _, st := range []*State{nil, {}, {Residual: make([]float32, len(x))}, {Residual: []float32{inf, inf, maxFloat, -inf, 0, 0, 0}}} {
			b, err := c.Encode(st, 0, nil, x)
			if err != nil {
				t.Fatal(err)
			}
			y := make([]float32, len(x))
			if err := c.Decode(0, y, b); err != nil {
				t.Fatal(err)
			}
			if y[0] < 1e38 || y[1] > -1e38 || y[6] != 0 {
				t.Errorf("decoded %v", y)
			}
		}
		tiny := []float32{0x1p-149, -0x1p-140}
		b, err := c.Encode(nil, 0, nil, tiny)
		if err != nil || c.Decode(0, make([]float32, 2), b) != nil {
			t.Errorf("denormals: %v", err)
		}
	})
}

func TestRefusals(t *testing.T) {
	each(t, func(t *testing.T, c Codec) {
		nan := float32(math.NaN())
		st := &State{Residual: []float32{1, 2}}
		if _, err := c.Encode(st, 0, nil, []float32{1, nan}); !errors.Is(err, ErrNotFinite) || st.Residual[0] != 1 {
			t.Errorf("NaN: %v, residual %v", err, st.Residual)
		}
		if _, err := c.Encode(st, 0, nil, []float32{1}); !errors.Is(err, ErrLength) {
			t.Errorf("residual of another length: %v", err)
		}
		if _, err := c.Encode(nil, 1, nil, nil); !errors.Is(err, ErrPhase) {
			t.Errorf("phase 1: %v", err)
		}
		b, err := c.Encode(nil, 0, nil, []float32{1, 2, 3})
		if err != nil {
			t.Fatal(err)
		}
		y := make([]float32, 3)
		if err := c.Decode(0, y, b[:len(b)-1]); !errors.Is(err, ErrLength) {
			t.Errorf("short: %v", err)
		}
		if err := c.Decode(0, y, append(b, 0)); !errors.Is(err, ErrLength) {
			t.Errorf("long: %v", err)
		}
		if err := c.Decode(1, y, b); !errors.Is(err, ErrPhase) {
			t.Errorf("phase 1: %v", err)
		}
		for i := range b {
			b[i] = 0x7F // NaN as float32, bfloat16 and scale
		}
		copy(b, []byte{0xFF, 0xFF, 0xFF, 0x7F})
		if err := c.Decode(0, y, b); !errors.Is(err, ErrNotFinite) {
			t.Errorf("not finite: %v", err)
		}
	})
	i8, _ := New("int8")
	for _, b := range [][]byte{{0, 0, 0x80, 0x3F, 0x80}, {0, 0, 0, 0, 1}, {0, 0, 0, 0x80, 0}, {0, 0, 0x80, 0xBF, 1}} {
		if err := i8.Decode(0, make([]float32, 1), b); !errors.Is(err, ErrCanonical) {
			t.Errorf("% x: %v", b, err)
		}
	}
	if _, err := New("zip"); err == nil {
		t.Error("unknown codec found")
	}
}

// FuzzDecode decodes by every codec: what is taken is finite, of the length that was
// asked for, and can be sent on.
func FuzzDecode(f *testing.F) {
	var all []Codec
	for i, name := range Names() {
		c, err := New(name)
		if err != nil {
			f.Fatal(err)
		}
		seed, err := c.Encode(nil, 0, nil, []float32{1, -2, 0.5})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), uint16(3), seed)
		f.Add(uint8(i), uint16(0), []byte{})
		all = append(all, c)
	}
	f.Fuzz(func(t *testing.T, which uint8, n uint16, b []byte) {
		c, y := all[int(which)%len(all)], make([]float32, n)
		if c.Decode(0, y, b) != nil {
			return
		}
		if len(b) > c.MaxSize(len(y)) {
			t.Fatalf("%s: %d values of %d bytes, limit %d", c.Spec().Name, n, len(b), c.MaxSize(len(y)))
		}
		for i, v := range y {
			if !num.Finite(v) {
				t.Fatalf("%s: value %d is %v", c.Spec().Name, i, v)
			}
		}
		if _, err := c.Encode(nil, 0, nil, y); err != nil {
			t.Fatalf("%s: decoded values do not encode: %v", c.Spec().Name, err)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	x := make([]float32, 65536)
	num.FillNormal(x, 1, 1, 1)
	for _, name := range Names() {
		b.Run(name, func(b *testing.B) {
			c, _ := New(name)
			st := &State{Residual: make([]float32, len(x))}
			var dst []byte
			for b.Loop() {
				dst, _ = c.Encode(st, 0, dst[:0], x)
			}
		})
	}
}
