package num

// Philox returns block index of the random stream (seed, stream): 128 bits by
// Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3",
// SC 2011) with the seed as key and (index, stream) as counter. It has no
// state, so any element of any stream can be had at once, in any order.
func Philox(seed, stream, index uint64) [4]uint32 {
	k0, k1 := uint32(seed), uint32(seed>>32)
	c := [4]uint32{uint32(index), uint32(index >> 32), uint32(stream), uint32(stream >> 32)}
	for range 10 {
		p0 := uint64(c[0]) * 0xD2511F53
		p1 := uint64(c[2]) * 0xCD9E8D57
		c = [4]uint32{uint32(p1>>32) ^ c[1] ^ k0, uint32(p1), uint32(p0>>32) ^ c[3] ^ k1, uint32(p0)}
		k0 += 0x9E3779B9
		k1 += 0xBB67AE85
	}
	return c
}

// FillNormal writes elements 0..len(dst)-1 of the normal stream (seed, stream)
// times scale: each is the sum of twelve uniform 16-bit numbers, centred, which
// is exact in float32, so only the product with scale rounds. Mean 0, variance
// 1 - 2^-32 before scaling, range +-6. Three Philox blocks make two normals.
func FillNormal(dst []float32, seed, stream uint64, scale float32) {
	var w [12]uint32
	for i := 0; i < len(dst); i += 2 {
		for b := range 3 {
			r := Philox(seed, stream, uint64(i/2*3+b))
			copy(w[4*b:], r[:])
		}
		dst[i] = float32(sumOfTwelve(w[:6]) * scale)
		if i+1 < len(dst) {
			dst[i+1] = float32(sumOfTwelve(w[6:]) * scale)
		}
	}
}

// sumOfTwelve returns the centred sum of the twelve uint16 in six words.
func sumOfTwelve(w []uint32) float32 {
	s := int32(0)
	for _, v := range w {
		s += int32(v&0xFFFF) + int32(v>>16)
	}
	return float32(2*s-12*65535) / 131072
}
