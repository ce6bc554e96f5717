// Package version is the numbers of a run: contributions encoded, checked and merged,
// and the versions that decided records give.
//
// A State is parameters, buffers and the outer optimizer's state; its version is the
// CID of its manifest. Model is what the genesis fixes: how updates are cut into
// parts, encoded, merged and applied. Replay computes every version again from the
// records and the blocks that they name.
//
// Guarantees: all arithmetic is canonical (docs/format/numerics.md), over the decided
// cut alone and in the order of peer ids, so early or late, twice or by a stand-in the
// bytes are the same; a peer's bytes can only cause an error, and a BadBody names the
// reason for which a contribution is refused.
//
// Blocks come from the caller through GetBlock; their hashes are checked here.
package version
