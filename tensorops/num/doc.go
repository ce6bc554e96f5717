// Package num holds the canonical functions: arithmetic whose bits are the
// same on every processor, so that versions, merges and audits can be compared
// byte for byte between machines.
//
// Every function is built from IEEE 754 operations that round once (add,
// subtract, multiply, divide, square root, compare and integer operations).
// Products that feed a sum are written float32(x*y)+z or float64(x*y)+z, which
// forbids the compiler to fuse them. Nothing here calls a function of package
// math whose bits depend on the processor (Exp, Log, Cos, ...). Denormals are
// kept. NaN payloads are not defined; callers check for finite values first.
//
// The C kernels of tensorops/cpu compute the same float32 functions with the
// same operations in the same order.
package num
