// Package nets has the models: families of graphs with sizes by name, their presets,
// and what they read. A model is a family and its sizes; the same whole numbers stand
// in a genesis, a run file and a model file, so a stranger rebuilds a graph without
// our code's defaults.
//
// It reads and writes decoders in Hugging Face's form too, and runs one token by
// token. It knows nothing of training.
package nets
