// Package shards keeps the content-addressed, erasure-coded model state of one
// peer, and the small durable key-value store that other packages stand on.
//
// Three things live here:
//
//   - BadgerKV and MemKV, one method set: atomic batches that are durable when
//     Apply returns. Ledger, consensus and the round's state use it. BadgerKV
//     opens unaided after a crash; MemKV has injectable faults for tests.
//   - Store, the blocks: at most 1 MiB of bytes under their CID, in one Badger
//     directory per epoch. An epoch is deleted as a whole directory, because a
//     value log is not reclaimed by deleting keys (dgraph-io/badger#2334). The
//     hash of a block is checked on every read, a block that fails is removed
//     and counted, and a write that would leave less than the free-space floor
//     is refused.
//   - Stripes: the k data and m parity blocks of a snapshot, placed on peers by
//     rendezvous hashing. Placement is a pure function of blocks, holders and
//     seed, and plain data with a canonical encoding.
//
// The package guarantees that what it returns for a CID has that CID, that no
// stripe puts two blocks on one peer, and that any loss of m holders of a
// stripe is made good from the others. It leaves to the caller who the holders
// are, when an epoch ends, how blocks travel and when a lost one is repaired.
package shards
