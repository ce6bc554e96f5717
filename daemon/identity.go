package daemon

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/wire"
)

const (
	identityFile = "identity.pem"
	identityType = "HIVED ED25519 SEED"
)

// LoadIdentity reads the peer's key from dir. The file must not be readable by
// others.
func LoadIdentity(dir string) (wire.Key, error) {
	path := filepath.Join(dir, identityFile)
	st, err := os.Stat(path)
	if err != nil {
		return wire.Key{}, err
	}
	if m := st.Mode().Perm(); m&0o077 != 0 {
		return wire.Key{}, exit.Fail(exit.Refused, nil, "identity %s has mode %04o, others can read it: type chmod 600 %s", path, m, path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return wire.Key{}, err
	}
	block, _ := pem.Decode(b)
	if block == nil || block.Type != identityType {
		return wire.Key{}, exit.Fail(exit.Integrity, nil, "identity %s is not a %s", path, identityType)
	}
	k, err := wire.KeyFromSeed(block.Bytes)
	if err != nil {
		return wire.Key{}, exit.Fail(exit.Integrity, err, "identity %s is damaged", path)
	}
	return k, nil
}

// MakeIdentity writes a new key into dir, which must not have one yet.
func MakeIdentity(dir string) (wire.Key, error) {
	k := wire.NewKey()
	return k, SaveIdentity(dir, k)
}

// SaveIdentity writes k into dir with mode 0600, atomically.
func SaveIdentity(dir string, k wire.Key) error {
	path := filepath.Join(dir, identityFile)
	if _, err := os.Stat(path); err == nil {
		return fmt.Errorf("write identity %s: %w", path, fs.ErrExist)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	b := pem.EncodeToMemory(&pem.Block{Type: identityType, Bytes: k.Seed()})
	return renameio.WriteFile(path, b, 0o600)
}
