package proof

import (
	"os"
	"path/filepath"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/wire"
	"github.com/google/renameio/v2"
)

// Write makes an export directory of what fill puts into it, with sums that
// key signs. Of files of one name the first is taken. The directory must not exist
// yet; it appears whole or not at all.
func Write(dir string, key wire.Key, run wire.RunID, fill func(put wire.Put) error) error {
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
	if err := renameio.WriteFile(filepath.Join(tmp, SigFile), sealSums(key, run, b), 0o644); err != nil {
		return exit.Fail(exit.Resource, err, "export to %s", dir)
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	if err := os.Rename(tmp, dir); err != nil {
		return exit.Fail(exit.Resource, err, "export to %s", dir)
	}
	return nil
}
