package proof

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/apiary-net/hived/wire"
)

// Files of an export that say what the others are, and who says so.
const (
	SumsFile = "SHA256SUMS"
	SigFile  = "SHA256SUMS.sig"
)

const maxFile = 64 << 20

// sums is the content of SHA256SUMS: the digest of every other file by name.
type sums map[string]wire.Digest

// bytes gives the one form of s: the format of sha256sum, by name.
func (s sums) bytes() []byte {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(&b, "%s  %s\n", s[name], name)
	}
	return b.Bytes()
}

func parseSums(b []byte) (sums, error) {
	s := sums{}
	sc := bufio.NewScanner(bytes.NewReader(b))
	for sc.Scan() {
		hex, name, ok := strings.Cut(sc.Text(), "  ")
		d, err := wire.ParseDigest(hex)
		if !ok || err != nil || !fs.ValidPath(name) {
			return nil, fmt.Errorf("%s: line %q", SumsFile, sc.Text())
		}
		s[name] = d
	}
	if sc.Err() != nil || !bytes.Equal(s.bytes(), b) {
		return nil, fmt.Errorf("%s is not in its one form", SumsFile)
	}
	return s, nil
}

// sealSums signs the digest of SHA256SUMS as the exporting peer.
func sealSums(k wire.Key, run wire.RunID, b []byte) []byte {
	d := wire.Sum(b)
	return wire.Seal(k, wire.KindSums, run, 0, d[:]).Bytes()
}

// openSums checks signature and sums, that every file is listed and has its
// digest, and that no other file is there. It returns the exporting peer.
func openSums(dir fs.FS, run wire.RunID) (wire.PeerID, error) {
	b, err := readFile(dir, SumsFile)
	if err != nil {
		return wire.PeerID{}, err
	}
	sig, err := readFile(dir, SigFile)
	if err != nil {
		return wire.PeerID{}, err
	}
	env, err := wire.Open(sig)
	if err != nil {
		return wire.PeerID{}, fmt.Errorf("%s: %w", SigFile, err)
	}
	if env.Kind != wire.KindSums || env.Run != run {
		return wire.PeerID{}, fmt.Errorf("%s: not a signature of this export", SigFile)
	}
	if d := wire.Sum(b); !bytes.Equal(env.Body, d[:]) {
		return wire.PeerID{}, fmt.Errorf("%s: not what %s signed", SumsFile, env.Sender)
	}
	s, err := parseSums(b)
	if err != nil {
		return wire.PeerID{}, err
	}
	seen := 0
	err = fs.WalkDir(dir, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || name == SumsFile || name == SigFile {
			return err
		}
		want, ok := s[name]
		if !ok {
			return fmt.Errorf("%s: not listed in %s", name, SumsFile)
		}
		b, err := readFile(dir, name)
		if err != nil {
			return err
		}
		if wire.Sum(b) != want {
			return fmt.Errorf("%s: digest is not the one in %s", name, SumsFile)
		}
		seen++
		return nil
	})
	if err == nil && seen != len(s) {
		for name := range s {
			if _, err := fs.Stat(dir, name); err != nil {
				return wire.PeerID{}, fmt.Errorf("%s: listed in %s but missing", name, SumsFile)
			}
		}
	}
	return env.Sender, err
}

// readFile reads a file of bounded size.
func readFile(dir fs.FS, name string) ([]byte, error) {
	st, err := fs.Stat(dir, name)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() > maxFile {
		return nil, fmt.Errorf("%s: not a regular file of at most %d bytes", name, maxFile)
	}
	return fs.ReadFile(dir, name)
}
