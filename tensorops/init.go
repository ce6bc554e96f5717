package tensorops

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/apiary-net/hived/tensorops/num"
)

// Init writes the start values that seed gives: each tensor's normals are a Philox
// stream named by the SHA-256 of its name, so the bits are the same on every
// machine and do not depend on the other tensors. Lengths must be the plan's.
func (p *Plan) Init(seed uint64, params, buffers []float32) {
	if len(params) != p.ParamLen || len(buffers) != p.BufferLen {
		panic(fmt.Sprintf("tensorops: init of %d and %d values, want %d and %d", len(params), len(buffers), p.ParamLen, p.BufferLen))
	}
	for _, q := range p.Params {
		dst := params
		if q.Buffer {
			dst = buffers
		}
		dst = dst[q.Off:][:q.Shape.Size()]
		if q.Init.Normal {
			h := sha256.Sum256([]byte(q.Name))
			num.FillNormal(dst, seed, binary.BigEndian.Uint64(h[:]), q.Init.Scale)
			continue
		}
		for i := range dst {
			dst[i] = q.Init.Scale
		}
	}
}
