package proof

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/wire"
)

// Write makes an export directory of what fill puts into it, with sums that
// key signs. Of files of one name the first is taken. The directory must not exist
// yet; it appears whole or not at all, whatever happens to the machine meanwhile, and
// is durable when Write returns.
func Write(dir string, key wire.Key, run wire.RunID, fill func(put wire.Put) error) error {
	return write(dir, key, run, fill, syncPath)
}

// syncPath makes a file's bytes durable, or a folder's names.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// write is Write by a given sync.
func write(dir string, key wire.Key, run wire.RunID, fill func(put wire.Put) error, sync func(path string) error) error {
	if _, err := os.Stat(dir); err == nil {
		return exit.Fail(exit.Usage, nil, "export to %s: it exists already", dir)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".export-")
	if err != nil {
		return exit.Fail(exit.Resource, err, "export to %s", dir)
	}
	defer os.RemoveAll(tmp) // nothing is left of it after the rename
	s := sums{}
	err = fill(func(name string, b []byte) error {
		if _, ok := s[name]; ok {
			return nil
		}
		path := filepath.Join(tmp, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		s[name] = wire.Sum(b)
		return os.WriteFile(path, b, 0o644)
	})
	if err != nil {
		return exit.Fail(exit.Degraded, err, "export to %s", dir)
	}
	b := s.bytes()
	if err := os.WriteFile(filepath.Join(tmp, SumsFile), b, 0o644); err != nil {
		return exit.Fail(exit.Resource, err, "export to %s", dir)
	}
	if err := os.WriteFile(filepath.Join(tmp, SigFile), sealSums(key, run, b), 0o644); err != nil {
		return exit.Fail(exit.Resource, err, "export to %s", dir)
	}
	err = os.Chmod(tmp, 0o755)
	if err == nil { // after the last write: one flush of the disk carries most of it
		err = filepath.WalkDir(tmp, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return sync(path)
		})
	}
	if err == nil {
		err = os.Rename(tmp, dir)
	}
	if err == nil {
		err = sync(filepath.Dir(dir))
	}
	if err != nil {
		return exit.Fail(exit.Resource, err, "export to %s", dir)
	}
	return nil
}
