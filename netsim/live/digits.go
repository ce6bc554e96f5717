package live

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/apiary-net/hived/train/data"
)

// Digits writes the small task that the daemons train on into a directory: images
// in the files of MNIST, each a bright bar among noise whose place is the label.
func Digits(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, n := range map[string]int{"train": 128, "t10k": 64} {
		rng := rand.New(rand.NewPCG(uint64(n), 0x646967697473))
		images := idx(0x0803, n, data.Side, data.Side)
		labels := idx(0x0801, n)
		for i := range n {
			label := i % 10
			for p := range data.Side * data.Side {
				v := rng.IntN(64)
				if p%data.Side/2 == label+2 {
					v += 160
				}
				images = append(images, byte(v))
			}
			labels = append(labels, byte(label))
		}
		for file, b := range map[string][]byte{"-images-idx3-ubyte": images, "-labels-idx1-ubyte": labels} {
			if err := os.WriteFile(filepath.Join(dir, name+file), b, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// idx begins an IDX file.
func idx(magic uint32, dims ...int) []byte {
	b := binary.BigEndian.AppendUint32(nil, magic)
	for _, d := range dims {
		b = binary.BigEndian.AppendUint32(b, uint32(d))
	}
	return b
}
