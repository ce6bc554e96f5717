package ledger

// KV is the durable store that a log stands on. Keys of different runs must not
// meet; all keys of this package start with "ledger/".
type KV interface {
	// Get returns a copy; errors.Is(err, fs.ErrNotExist) if there is none.
	Get(key []byte) ([]byte, error)
	// Apply is one atomic batch, durable when it returns if sync.
	Apply(puts [][2][]byte, dels [][]byte, sync bool) error
	// Scan is ascending; f's slices are valid during the call.
	Scan(prefix []byte, f func(key, value []byte) error) error
	Close() error
}

// Dir is where Export writes: an empty folder, or an archive. Names have
// slashes; a file is written once.
type Dir interface {
	WriteFile(name string, b []byte) error
}
