// Package train does local training: data in, update out. It has the trainer of a
// round, trainings on one machine with their run files, checkpoints and curves, and
// evaluation. It knows nothing of peers. Data sets are in train/data, models in
// train/nets, files of tensors in train/weights.
//
// A run deals positions. Position p is sample data.Permute(seed, p/n, n, p%n) of
// split train, n its length: every epoch is a new permutation, computed and never
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
package train
