package wire

// MaxSlice bounds the bytes of a slice message.
const MaxSlice = MaxBlock + 256

// Slice is one part of one step of a window, between two members: a gradient on
// its way to the part's owner, or the merged gradient on its way back. The
// connection tells who sent it; the header at the window's end commits to it.
type Slice struct {
	_      struct{} `cbor:",toarray"`
	Run    RunID
	Round  uint64
	Step   uint32
	Part   uint32
	Merged bool
	Data   []byte
}
