// Package ledger is the signed append-only record of what one peer did in one
// run, and the proofs about it.
//
// Every peer has one log per run: an RFC 6962 Merkle tree whose leaves are
// signed entries, each naming its number and the digest of the one before. The
// tree's head is a C2SP tlog-checkpoint with origin hived/RUN/log/PEER, signed
// by the peer's own key, so it is attributable without any table. Nobody writes
// another's log, which works offline and without contention.
//
//   - Log appends: entries, tree nodes and signed head go into one synced batch,
//     so an Append that returned survives a crash whole, and one that did not
//     leaves nothing or all.
//   - Heads keeps the newest verified head of every peer. A bigger head is
//     believed only with a proof that it extends the known one. Two heads of one
//     size with other roots, two entries of one number, or a head and a later one
//     that begins with other entries, are Evidence, which anybody can check. A proof
//     that does not verify is only suspicion.
//   - Witness follows the logs of others and cosigns what extends what it saw; the
//     statement is durable before it is signed, and goes to the log's owner, who
//     keeps it, and stops if it is not of its log. A log whose proof fails is asked
//     for whole. Evidence goes into the own log and to all members, once.
//   - Export writes the log as static C2SP tlog-tiles; Verify reads such a
//     folder, believes nothing in it, and recomputes the root.
//
// The log key also signs cosignatures and other messages of hived. Their forms
// never coincide: a note starts with "hived/", a cosignature with
// "cosignature/v1", all else with its own domain line.
//
// What an entry means is the caller's. Verifying a whole export is in ledger/proof.
package ledger
