// Package proof is what a stranger needs to check a run: the export directory, its
// writer, and verifiers that believe nothing in it. No daemon and no network.
//
//   - Ledger checks sums and signatures, every record and certificate in order,
//     attestations, and every peer's log with the headers that it must hold.
//   - Model checks the same, recomputes every version from the start weights, and
//     evaluates the last one where the data are at hand.
//   - Write makes a directory that appears whole or not at all.
//
// An error names the first file that is wrong; its exit code is exit.Integrity. The
// layout is docs/format/export.md.
package proof
