package shards

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// What this file must know of Badger's log files (.mem and .vlog): a header of
// 20 bytes; entries of two meta bytes, three varints (lengths of key and value,
// expiry), key, value and CRC-32C; a transaction is a run of entries with bit 6
// and ends in one with bit 7; zeros fill the file to its allocated size.
const (
	logHeaderBytes = 20
	metaTxn        = 1 << 6
	metaTxnEnd     = 1 << 7
	maxLogKeyBytes = 1 << 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// lockDir takes the same lock that Badger takes, so that nothing is repaired
// under another process, and makes the folder if it is missing.
func lockDir(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, ErrInUse
		}
		return nil, err
	}
	return func() { f.Close() }, nil
}

// repairDir makes a cut MANIFEST again, removes log files that a crash left
// without even a header, on which Badger refuses to open, and returns how many
// bytes were lost there and will be dropped behind the last whole transaction.
func repairDir(dir string) (torn int64, err error) {
	if torn, err = repairManifest(dir); err != nil {
		return 0, fmt.Errorf("manifest: %w", err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.*"))
	if err != nil {
		return 0, err
	}
	newest := newestValueLog(names)
	for _, name := range names {
		ext := filepath.Ext(name)
		if ext != ".mem" && ext != ".vlog" {
			continue
		}
		fi, err := os.Stat(name)
		if err != nil {
			return torn, err
		}
		if fi.Size() < logHeaderBytes {
			if err := os.Remove(name); err != nil {
				return torn, err
			}
			torn += fi.Size()
			continue
		}
		if ext == ".vlog" && name != newest {
			continue // Badger cuts only the newest one
		}
		n, err := tornBytes(name)
		if err != nil {
			return torn, err
		}
		torn += n
	}
	return torn, nil
}

func newestValueLog(names []string) string {
	best, newest := int64(-1), ""
	for _, n := range names {
		base, ok := strings.CutSuffix(filepath.Base(n), ".vlog")
		if !ok {
			continue
		}
		if id, err := strconv.ParseInt(base, 10, 64); err == nil && id > best {
			best, newest = id, n
		}
	}
	return newest
}

// tornBytes returns the distance from the end of the last whole transaction in
// a log file to the last byte that is not zero.
func tornBytes(name string) (int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	used, err := usedBytes(f)
	if err != nil {
		return 0, fmt.Errorf("measure %s: %w", name, err)
	}
	if used <= logHeaderBytes {
		return 0, nil
	}
	// Not cut at used: the last checksum may end in zeros.
	r := bufio.NewReaderSize(io.NewSectionReader(f, logHeaderBytes, 1<<40), 64<<10)
	end, at := int64(0), int64(0)
	for {
		meta, n, ok := skipEntry(r, used)
		if !ok {
			break
		}
		at += n
		if meta&metaTxn == 0 {
			end = at
		}
	}
	return max(0, used-logHeaderBytes-end), nil
}

// skipEntry reads one entry and reports its meta byte and length, or false if
// it is not whole.
func skipEntry(r *bufio.Reader, limit int64) (meta byte, n int64, ok bool) {
	h := &countingReader{r: r}
	meta, err := h.ReadByte()
	if err != nil {
		return 0, 0, false
	}
	if _, err := h.ReadByte(); err != nil {
		return 0, 0, false
	}
	var v [3]uint64
	for i := range v {
		if v[i], err = binary.ReadUvarint(h); err != nil {
			return 0, 0, false
		}
	}
	if v[0] > maxLogKeyBytes || v[1] > uint64(limit) || (v[0] == 0 && v[1] == 0) {
		return 0, 0, false
	}
	if _, err := io.CopyN(io.Discard, h, int64(v[0]+v[1])); err != nil {
		return 0, 0, false
	}
	sum := h.crc
	var crc [4]byte
	if _, err := io.ReadFull(h, crc[:]); err != nil || binary.BigEndian.Uint32(crc[:]) != sum {
		return 0, 0, false
	}
	return meta, h.n, true
}

// usedBytes returns the offset behind the last byte of f that is not zero,
// reading backwards: the tail is a hole that costs no disk access.
func usedBytes(f *os.File) (int64, error) {
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	buf := make([]byte, 64<<10)
	for hi := fi.Size(); hi > 0; {
		lo := max(0, hi-int64(len(buf)))
		b := buf[:hi-lo]
		if _, err := f.ReadAt(b, lo); err != nil {
			return 0, err
		}
		for i := len(b) - 1; i >= 0; i-- {
			if b[i] != 0 {
				return lo + int64(i) + 1, nil
			}
		}
		hi = lo
	}
	return 0, nil
}

// countingReader counts and sums what passes.
type countingReader struct {
	r   *bufio.Reader
	n   int64
	crc uint32
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	c.crc = crc32.Update(c.crc, castagnoli, p[:n])
	return n, err
}

func (c *countingReader) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		c.n++
		c.crc = crc32.Update(c.crc, castagnoli, []byte{b})
	}
	return b, err
}
