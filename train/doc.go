// Package train does local training: data in, update out. It holds the models,
// the data sets and the built-in trainer, and knows nothing of peers.
//
// A run deals positions. Position p is sample Permute(seed, p/n, n, p%n) of split
// train, n its length: every epoch is a new permutation, computed and never
// stored, so any peer can tell which samples any span of positions means.
//
// A Trainer starts from a loaded version, makes optimizer steps on the samples of
// the spans it is given, and returns base less what it reached. Its bits depend on
// the seed, the version, its optimizer state and the spans only, not on the
// instruction set or the number of threads: a stranger can repeat the work.
//
// Each step takes Batch samples; the last one of a job may take fewer: the plan
// keeps its size and the missing samples have labels that leave them out. Losses
// are means over the terms that count (digits, or bytes of text).
//
// Data sets are numbered samples with a digest: the RFC 6962 tree over SHA-256
// digests of samples in index order, split train first. Files are checked before
// they are believed; an error names file, field and limit.
package train
