// Package weights reads and writes files of named tensors in the safetensors format.
// Models, checkpoints and other people's weights are all this one format, and this is
// their only reader: every length of a header is checked before anything is believed.
// Files are replaced whole or not at all.
package weights
