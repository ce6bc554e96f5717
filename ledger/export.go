package ledger

import (
	"encoding/binary"
	"fmt"
	"iter"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/apiary-net/hived/wire"
)

// Layout of an exported log, C2SP tlog-tiles: "checkpoint", "tile/LEVEL/N" with
// 256 hashes each and "tile/entries/N" with 256 entries each, every entry behind
// its length in two bytes. A tile that is not full ends in ".p/WIDTH".
const (
	tileHeight     = 8
	tileWidth      = 1 << tileHeight
	checkpointFile = "checkpoint"
)

// tilePath is the path of a tile by C2SP, which leaves out the height and calls
// level -1 entries.
func tilePath(t tlog.Tile) string {
	p := strings.TrimPrefix(t.Path(), fmt.Sprintf("tile/%d/", tileHeight))
	if rest, ok := strings.CutPrefix(p, "data/"); ok {
		p = "entries/" + rest
	}
	return "tile/" + p
}

// tiles lists the tiles of a tree; each is needed to read it, none is given
// twice.
func tiles(size uint64) []tlog.Tile { return tlog.NewTiles(tileHeight, 0, int64(size)) }

// bundles yields the entry bundles of a log one by one: a size that was only
// claimed must not cost memory.
func bundles(size uint64) iter.Seq[tlog.Tile] {
	return func(yield func(tlog.Tile) bool) {
		for lo := uint64(0); lo < size; lo += tileWidth {
			if !yield(tlog.Tile{H: tileHeight, L: -1, N: int64(lo / tileWidth), W: int(min(tileWidth, size-lo))}) {
				return
			}
		}
	}
}

// Export writes the log as it is now and returns its head. The checkpoint comes
// last, so a folder that has one is whole.
func (l *Log) Export(to Dir) (wire.Head, error) {
	head := l.Head()
	for t := range bundles(head.Size) {
		var b []byte
		lo := uint64(t.N) * tileWidth
		err := l.Read(lo, lo+uint64(t.W), func(raw []byte, _ wire.EntryBody) error {
			b = append(binary.BigEndian.AppendUint16(b, uint16(len(raw))), raw...)
			return nil
		})
		if err == nil {
			err = to.WriteFile(tilePath(t), b)
		}
		if err != nil {
			return head, fmt.Errorf("export %s: %w", tilePath(t), err)
		}
	}
	for _, t := range tiles(head.Size) {
		b, err := tlog.ReadTileData(t, nodes{kv: l.cfg.KV})
		if err == nil {
			err = to.WriteFile(tilePath(t), b)
		}
		if err != nil {
			return head, fmt.Errorf("export %s: %w", tilePath(t), err)
		}
	}
	if err := to.WriteFile(checkpointFile, head.Note); err != nil {
		return head, fmt.Errorf("export checkpoint: %w", err)
	}
	return head, nil
}
