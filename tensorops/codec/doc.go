// Package codec turns vectors of float32 into bytes and back, with error feedback.
//
// A codec is lossless (none) or lossy (bf16, int8); what a lossy one loses goes
// into the sender's residual and is added to its next vector (Seide et al., "1-Bit
// Stochastic Gradient Descent", 2014, section 3). Decoding is canonical: the same
// bytes give the same bits on every machine, since decoded values enter versions.
// Encoding is up to the sender.
//
// Encoders saturate: infinities and values beyond what decoding can hold become
// the largest value that it can; only NaN is an error. Decoders take bytes from
// anyone: a wrong length or a value that is not finite is an error and nothing
// else. The length of a vector is never read from its bytes.
//
// Codecs hold no state and may be shared; a State belongs to one goroutine.
package codec
