// Package data turns files into samples. A Set is numbered samples in splits with a
// Form that says what one looks like; Open makes one from a Spec, whatever the format.
//
// The digest of a set is the RFC 6962 tree over SHA-256 digests of samples in index
// order, split train first. Files are checked before they are believed; an error
// names file, field and limit. Nobody's place in a file decides its split, and exact
// copies are never on two sides.
//
// How a sample is changed in training (moved, mirrored, masked) depends on its key
// alone. It knows nothing of models, of training and of peers.
package data
