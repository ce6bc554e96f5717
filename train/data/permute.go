package data

import "math/bits"

// permuteRounds of a Feistel network; four are enough for random-looking order,
// six leave a margin.
const permuteRounds = 6

// Permute returns where pos goes in permutation epoch of [0, n), keyed by seed: a
// Feistel network over the least even number of bits that hold n, walked until it
// lands inside (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002,
// section 3). It panics unless pos < n <= 2^62.
func Permute(seed, epoch, n, pos uint64) uint64 {
	if pos >= n || n > 1<<62 {
		panic("data: permute outside its range")
	}
	half := uint(max(1, (bits.Len64(n-1)+1)/2))
	mask := uint64(1)<<half - 1
	key := Mix(Mix(seed) + epoch)
	for {
		l, r := pos>>half, pos&mask
		for i := range uint64(permuteRounds) {
			l, r = r, l^Mix(key+i<<58+r)&mask
		}
		if pos = l<<half | r; pos < n {
			return pos
		}
	}
}

// Mix is the finalizer of SplitMix64 (Steele, Lea, Flood 2014) after its increment.
func Mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}
