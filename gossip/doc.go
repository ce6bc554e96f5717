// Package gossip is the swarm's network: it finds peers and stays joined,
// announces small signed messages on topics, and moves bodies over direct
// streams. It is the only package that knows libp2p.
//
// A Node is one host. New opens its sockets; Run keeps it joined until its
// context ends: it redials bootstrap, cached and seen peers for ever with
// back-off, listens to mDNS, asks peers for peers, and keeps the peer cache.
//
//   - Topics (Join, Publish, Inbox) carry at most 64 KiB. The check given to
//     Join says Accept, Ignore or Reject; a peer that forwards rejected messages
//     is graylisted, disconnected and kept out for a while.
//   - Direct messages (Send, Handle) keep one stream per peer and protocol and
//     arrive in order. They are not acknowledged: what was in flight when a
//     connection broke is lost, and round state is pulled to make it good.
//   - Pull asks one peer one question.
//   - Fetch gets blocks by CID from any of several holders and checks each
//     hash; a BlockSource decides who may have what.
//
// Guarantees: every length is bounded before it is believed, every wait has a
// limit, a stream that breaks a rule is reset and its peer noted, a panic in a
// handler ends that stream only, and nothing here is kept for a peer that is
// gone but its address. Who may connect is Config.Allow's; membership, rounds
// and the meaning of bytes are the caller's.
package gossip
