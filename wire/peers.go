package wire

import "fmt"

// Bounds of a PeerList: of its encoding, and of its peers.
const (
	MaxPeerList = 64 << 10
	MaxTold     = 64
)

// PeerAddrs is a peer and where others reach it.
type PeerAddrs struct {
	_     struct{} `cbor:",toarray"`
	Peer  PeerID
	Addrs []string // multiaddrs
}

// PeerList is what a peer answers when it is asked whom it knows.
type PeerList []PeerAddrs

// OpenPeerList decodes an answer. Nobody has looked at the addresses yet.
func OpenPeerList(b []byte) (PeerList, error) {
	var l PeerList
	if err := Unmarshal(b, &l, MaxPeerList); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *PeerList) check() error {
	if len(*l) > MaxTold {
		return fmt.Errorf("answer with %d peers, limit %d", len(*l), MaxTold)
	}
	return nil
}
