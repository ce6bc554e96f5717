// Command computebench times hived's kernels and training steps beside PyTorch's
// in one run: the two take turns, each alone, with the same number of threads, and
// the medians of processor time (wall time for two threads) are compared.
//
// It prints `RATIO name value` (hived/PyTorch, below 1 is faster), `VALUE name
// value` and `SKIP name reason`. The yardstick is the faster of the variants that
// PyTorch offers (BLAS, oneDNN, memory formats). A second PyTorch, named by
// HIVED_TORCH_NEW (its python), is compared by `NEWEST name value`.
package main
