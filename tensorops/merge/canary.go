package merge

import (
	"errors"

	"github.com/apiary-net/hived/tensorops/num"
)

// ErrArithmetic is returned when the thread's floating-point mode is not IEEE
// round to nearest even with denormals.
var ErrArithmetic = errors.New("floating-point mode was changed on this thread")

// probes are variables, so that the processor and not the compiler computes.
var probes = struct{ tiny, half, one, ulp, a, b, c float32 }{
	0x1p-148, 0.5, 1, 0x1p-24, 1 + 0x1p-20, 0x1p-24 * (1 - 0x1p-20), 1 + 0x1p-23,
}

// Canary checks a denormal product, two ties and a fused operation that rounding
// twice gets wrong.
func Canary() error {
	p := &probes
	even := p.one + p.ulp            // tie down to even
	odd := (p.one + 2*p.ulp) + p.ulp // tie up to even
	if float32(p.tiny*p.half) != 0x1p-149 || even != 1 || odd != 1+0x1p-22 || num.Fma32(p.a, p.b, p.c) != 1+0x1p-23 {
		return ErrArithmetic
	}
	return nil
}
