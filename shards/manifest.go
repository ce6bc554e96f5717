package shards

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// What this file must know of Badger's MANIFEST, the list of its tables: eight
// bytes of magic, then change sets, each behind its length and CRC-32C in four
// bytes. A change set is protobuf: repeated field 1, a change, whose field 1 is
// the table's number; the operation (create), level (0) and compression (none)
// that we write are zeros, which protobuf leaves out.
const (
	manifestMagic    = 8
	manifestHeader   = 8
	maxManifestBytes = 64 << 20
)

// repairManifest makes a MANIFEST again whose end was lost, and returns how many
// bytes of it were torn. Badger would cut a torn end off silently, then miss the
// tables that were removed since, and delete the ones that were added. An end
// may also be lost whole; then there are tables that are newer than all that
// MANIFEST ever named. Which tables there are is known from the folder; all of
// them may stand at level 0, where every read looks into each and the newest
// version wins.
func repairManifest(dir string) (torn int64, err error) {
	name := filepath.Join(dir, "MANIFEST")
	fi, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if fi.Size() > maxManifestBytes {
		return 0, fmt.Errorf("manifest of %d bytes, limit %d", fi.Size(), maxManifestBytes)
	}
	b, err := os.ReadFile(name)
	if err != nil || len(b) < manifestMagic {
		return 0, err // Badger says what is wrong with the magic
	}
	newest, torn := readManifest(b[manifestMagic:])
	ids, err := tableIDs(dir)
	if err != nil {
		return 0, err
	}
	ids = slices.DeleteFunc(ids, func(id uint64) bool { return id > newest && !wholeTable(tableName(dir, id)) })
	if torn == 0 && (len(ids) == 0 || ids[len(ids)-1] <= newest) {
		return 0, nil
	}
	set := changeSet(ids)
	out := slices.Clone(b[:manifestMagic])
	out = binary.BigEndian.AppendUint32(out, uint32(len(set)))
	out = binary.BigEndian.AppendUint32(out, crc32.Checksum(set, castagnoli))
	return torn, replaceFile(name, append(out, set...))
}

// readManifest returns the highest number of a table that the whole change sets
// name, and the bytes behind the last whole one.
func readManifest(b []byte) (newest uint64, torn int64) {
	for len(b) >= manifestHeader {
		n := uint64(binary.BigEndian.Uint32(b))
		if n > uint64(len(b)-manifestHeader) {
			break
		}
		set := b[manifestHeader : manifestHeader+n]
		if crc32.Checksum(set, castagnoli) != binary.BigEndian.Uint32(b[4:]) {
			break
		}
		newest = max(newest, newestOf(set))
		b = b[manifestHeader+n:]
	}
	return newest, int64(len(b))
}

// newestOf returns the highest number of a table in a change set.
func newestOf(set []byte) (newest uint64) {
	for len(set) > 0 && set[0] == 1<<3|2 {
		n, w := binary.Uvarint(set[1:])
		if w <= 0 || n > uint64(len(set)-1-w) {
			break
		}
		change := set[1+w : 1+w+int(n)]
		set = set[1+w+int(n):]
		if len(change) > 0 && change[0] == 1<<3 {
			if id, w := binary.Uvarint(change[1:]); w > 0 {
				newest = max(newest, id)
			}
		}
	}
	return newest
}

// wholeTable reports whether a table was written to its end, which is: index,
// its length, a protobuf checksum (field 2 is the CRC-32C of the index) and the
// length of that.
func wholeTable(name string) bool {
	b, err := os.ReadFile(name)
	if err != nil || len(b) < 8 {
		return false
	}
	n := uint64(binary.BigEndian.Uint32(b[len(b)-4:]))
	b = b[:len(b)-4]
	if n < 2 || n > 32 || n+4 > uint64(len(b)) {
		return false
	}
	sum := b[uint64(len(b))-n:]
	b = b[:uint64(len(b))-n]
	index := uint64(binary.BigEndian.Uint32(b[len(b)-4:]))
	b = b[:len(b)-4]
	if sum[0] != 2<<3 || index == 0 || index > uint64(len(b)) {
		return false
	}
	want, w := binary.Uvarint(sum[1:])
	return w > 0 && want == uint64(crc32.Checksum(b[uint64(len(b))-index:], castagnoli))
}

func tableName(dir string, id uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%06d.sst", id))
}

// tableIDs returns the numbers of the tables in a folder, ascending.
func tableIDs(dir string) ([]uint64, error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var ids []uint64
	for _, n := range names {
		base, ok := strings.CutSuffix(n.Name(), ".sst")
		if !ok {
			continue
		}
		if id, err := strconv.ParseUint(base, 10, 64); err == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

func changeSet(ids []uint64) []byte {
	var set []byte
	for _, id := range ids {
		change := binary.AppendUvarint([]byte{1 << 3}, id)
		set = append(set, 1<<3|2)
		set = append(binary.AppendUvarint(set, uint64(len(change))), change...)
	}
	return set
}

// replaceFile replaces a file whole and durably.
func replaceFile(name string, b []byte) error {
	tmp := name + ".repair"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, name); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
