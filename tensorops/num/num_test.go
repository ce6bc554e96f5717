package num

import (
	"math"
	"math/big"
	"math/rand"
	"testing"
)

// TestFma32Ties checks the cases where rounding twice goes wrong, built by hand:
// random cases practically never meet them.
func TestFma32Ties(t *testing.T) {
	p := func(e int) float32 { return float32(math.Ldexp(1, e)) }
	for _, c := range []struct{ a, b, c float32 }{
		{1 + p(-20), p(-24) * (1 - p(-20)), 1 + p(-23)},
		{1 + p(-20), -p(-24) * (1 - p(-20)), 1 + p(-23)},
		{1 + p(-20), p(-24) * (1 - p(-20)), -1 - p(-23)},
		{1 + p(-12), p(-24) * (1 - p(-12)), 1},
		{1 + p(-12), p(-24) * (1 + p(-12)), 1},
		{1 + p(-12), -p(-25) * (1 + p(-12)), 1},
		{p(-75), p(-75), p(-149)},
		{p(-75) * 1.5, p(-75), p(-126)},
		{p(-75), -p(-75), p(-126)},
		{p(-100), p(-100), 0},
		{-p(-100), p(-100), 0},
		{3, p(-149), p(-126)},
		{p(64), p(63), -p(127)},
		{p(64), p(63) * (1 - p(-24)), p(100)},
	} {
		got, want := Fma32(c.a, c.b, c.c), slowFma(c.a, c.b, c.c)
		if math.Float32bits(got) != math.Float32bits(want) {
			t.Errorf("Fma32(%x, %x, %x) = %x, want %x", c.a, c.b, c.c, got, want)
		}
	}
	naive := float32(math.FMA(float64(1+p(-20)), float64(p(-24)*(1-p(-20))), float64(1+p(-23))))
	if naive == Fma32(1+p(-20), p(-24)*(1-p(-20)), 1+p(-23)) {
		t.Error("the first case no longer tells one rounding from two")
	}
}

// slowFma computes with unlimited precision and rounds once.
func slowFma(a, b, c float32) float32 {
	f := func(x float32) *big.Float { return new(big.Float).SetPrec(600).SetFloat64(float64(x)) }
	s := new(big.Float).SetPrec(600).Mul(f(a), f(b))
	neg := s.Signbit() && s.Sign() == 0 || s.Sign() < 0
	s.Add(s, f(c))
	r, _ := s.Float32()
	if s.Sign() == 0 {
		if neg && math.Signbit(float64(c)) {
			return float32(math.Copysign(0, -1))
		}
		return 0
	}
	return r
}

func TestFma32Random(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range 200000 {
		a := math.Float32frombits(r.Uint32())
		b := math.Float32frombits(r.Uint32())
		c := math.Float32frombits(r.Uint32())
		if r.Intn(2) == 0 {
			c = -float32(a*b) * (1 + float32(r.Intn(5)-2)*0x1p-23)
		}
		if !Finite(a) || !Finite(b) || !Finite(c) {
			continue
		}
		if got, want := Fma32(a, b, c), slowFma(a, b, c); math.Float32bits(got) != math.Float32bits(want) {
			t.Fatalf("Fma32(%x, %x, %x) = %x, want %x", a, b, c, got, want)
		}
	}
}

func TestFunctionsAgainstMath(t *testing.T) {
	for i := -8700; i <= 8800; i++ {
		x := float32(i) / 100
		if w := math.Exp(float64(x)); math.Abs(float64(Exp32(x))-w) > 2.5e-7*w {
			t.Fatalf("Exp32(%v) = %v, want %v", x, Exp32(x), w)
		}
	}
	for i := 1; i < 20000; i++ {
		x := math.Exp(float64(i-10000) / 20)
		if w := math.Log(x); math.Abs(Log(x)-w) > 4e-16*math.Max(1, math.Abs(w)) {
			t.Fatalf("Log(%v) = %v, want %v", x, Log(x), w)
		}
		u := float64(i) / 20000
		if w := math.Cos(math.Pi * u); math.Abs(CosPi(u)-w) > 1e-15 {
			t.Fatalf("CosPi(%v) = %v, want %v", u, CosPi(u), w)
		}
	}
	for _, x := range []float64{0, -1, math.Inf(1), math.NaN(), 0x1p-1060} {
		if !math.IsNaN(Log(x)) {
			t.Errorf("Log(%v) = %v, want NaN", x, Log(x))
		}
	}
}

// TestCanonicalBits pins results by their bits: another machine that computes
// others is not able to take part in a run.
func TestCanonicalBits(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want uint64
	}{
		{"exp32(1)", uint64(math.Float32bits(Exp32(1))), 0x402df854},
		{"exp32(-10.5)", uint64(math.Float32bits(Exp32(-10.5))), uint64(math.Float32bits(float32(math.Exp(-10.5))))},
		{"log(2)", math.Float64bits(Log(2)), 0x3fe62e42fefa39ef},
		{"cosine(1,3)", uint64(math.Float32bits(Cosine(1, 3, 0))), 0x3f400000},
	} {
		if c.got != c.want {
			t.Errorf("%s: bits %#x, want %#x", c.name, c.got, c.want)
		}
	}
}

// TestPhilox uses the known answers of the Random123 distribution.
func TestPhilox(t *testing.T) {
	if got, want := Philox(0, 0, 0), [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}; got != want {
		t.Errorf("zero block %x, want %x", got, want)
	}
	all := ^uint64(0)
	if got, want := Philox(all, all, all), [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}; got != want {
		t.Errorf("ones block %x, want %x", got, want)
	}
	got := Philox(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88)
	if want := [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}; got != want {
		t.Errorf("pi block %x, want %x", got, want)
	}
}

func TestFillNormal(t *testing.T) {
	x := make([]float32, 100001)
	FillNormal(x, 7, 9, 1)
	var s, q float64
	for _, v := range x {
		s += float64(v)
		q += float64(v) * float64(v)
	}
	n := float64(len(x))
	if math.Abs(s/n) > 0.015 || math.Abs(q/n-1) > 0.02 {
		t.Errorf("mean %v, variance %v", s/n, q/n)
	}
	y := make([]float32, 11)
	FillNormal(y, 7, 9, 1)
	for i := range y {
		if x[i] != y[i] {
			t.Fatal("a prefix of the stream depends on the length asked for")
		}
	}
}

func TestSumSquares(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	for _, n := range []int{0, 1, 15, 16, 17, 4095, 4096, 4097, 10000} {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		want := 0.0
		for b := 0; b == 0 || b < n; b += 4096 {
			lanes := make([]float64, 16)
			for i := b; i < min(n, b+4096); i++ {
				lanes[(i-b)%16] += float64(x[i]) * float64(x[i])
			}
			for len(lanes) > 1 {
				h := len(lanes) / 2
				for j := range h {
					lanes[j] += lanes[j+h]
				}
				lanes = lanes[:h]
			}
			want += lanes[0]
		}
		if got := SumSquares(x); math.Float64bits(got) != math.Float64bits(want) {
			t.Errorf("n=%d: %v, want %v", n, got, want)
		}
	}
}

func TestBF16(t *testing.T) {
	for u := range uint32(1 << 16) {
		f := FromBF16(uint16(u))
		if Finite(f) && ToBF16(f) != uint16(u) {
			t.Fatalf("%#x does not come back", u)
		}
	}
	for _, c := range []struct {
		u uint32
		h uint16
	}{{0x3F808000, 0x3F80}, {0x3F818000, 0x3F82}, {0x3F808001, 0x3F81}, {0x7F7FFFFF, 0x7F7F}, {0xFF7FFFFF, 0xFF7F}, {0x00008001, 1}, {0x80000000, 0x8000}} {
		if got := ToBF16(math.Float32frombits(c.u)); got != c.h {
			t.Errorf("ToBF16(%#x) = %#x, want %#x", c.u, got, c.h)
		}
	}
}

func TestLowerMedian(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{4, 1}, 1}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 3, 2, 1}, 2}} {
		if got := LowerMedian(c.x); got != c.want {
			t.Errorf("LowerMedian(%v) = %v, want %v", c.x, got, c.want)
		}
	}
}
