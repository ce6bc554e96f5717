package wire

import "crypto/sha256"

// MerkleRoot returns the RFC 6962 tree hash over leaves, each a digest.
func MerkleRoot(leaves []Digest) Digest {
	switch n := len(leaves); n {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return sha256.Sum256(append([]byte{0}, leaves[0][:]...))
	default:
		k := 1
		for k*2 < n {
			k *= 2
		}
		l, r := MerkleRoot(leaves[:k]), MerkleRoot(leaves[k:])
		return sha256.Sum256(append(append([]byte{1}, l[:]...), r[:]...))
	}
}
