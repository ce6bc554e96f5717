package weights

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// ErrFile is wrapped by errors about files that are absent, truncated or lie.
var ErrFile = errors.New("data set is not usable")

// ReadBounded reads a file, unpacked where it is gzip, of at most limit bytes.
func ReadBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read data: %w: %w", err, ErrFile)
	}
	defer f.Close()
	br := bufio.NewReader(f)
	var r io.Reader = br
	if m, err := br.Peek(2); err == nil && m[0] == 0x1F && m[1] == 0x8B {
		if r, err = gzip.NewReader(br); err != nil {
			return nil, fmt.Errorf("read data: %s: %w: %w", path, err, ErrFile)
		}
	}
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read data: %s: %w: %w", path, err, ErrFile)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("read data: %s has more than %d bytes, unpacked: %w", path, limit, ErrFile)
	}
	return b, nil
}

// ReplaceFile writes a file beside path, syncs it, renames it and syncs the folder.
func ReplaceFile(path string, write func(io.Writer) error) error {
	p, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithPermissions(0o644))
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() { _ = p.Cleanup() }()
	if err := write(p); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := p.CloseAtomicallyReplace(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("sync folder of %s: %w", path, err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync folder of %s: %w", path, err)
	}
	return nil
}
