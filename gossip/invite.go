package gossip

import (
	"context"
	"errors"
	"fmt"
	"time"

	ma "github.com/multiformats/go-multiaddr"

	"github.com/apiary-net/hived/wire"
)

// Dial joins by one more address, a multiaddr with /p2p/ID, and returns when the
// peer is connected. It tries again until ctx ends; the error then is that of
// the last try. The address is remembered like those of other peers.
func (n *Node) Dial(ctx context.Context, addr string) (wire.PeerID, error) {
	id, a, err := parseAddr(addr)
	if err != nil {
		return id, err
	}
	if id == n.self {
		return id, errors.New("this is the own address")
	}
	n.book.learn(id, []ma.Multiaddr{a}, time.Now())
	for tries := 0; ; tries++ {
		err := n.connect(ctx, id)
		if err == nil {
			return id, nil
		}
		texts := dialErrors(err)
		text, ok := texts[a.String()]
		if !ok {
			text = texts[""]
		}
		err = fmt.Errorf("%s: %s: %w", addr, text, ErrUnreachable)
		t := time.NewTimer(backoff(tries+1, n.cfg.RedialMax))
		select {
		case <-ctx.Done():
			t.Stop()
			return id, err
		case <-t.C:
		}
	}
}
