package gossip

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/apiary-net/hived/wire"
)

// TopicPrefix starts the name of every topic.
const TopicPrefix = "/hived/"

const (
	maxTopicName    = 200
	maxSubsOfPeer   = 64
	rpcOverhead     = 8 << 10
	seenFor         = 30 * time.Second // a message that was Ignored may come again after this
	checkTimeout    = 5 * time.Second
	checksAtOnce    = 32
	maxDeliverQueue = 1024
)

// Verdict is what a check says of a message.
type Verdict int

// Accept delivers and forwards. Ignore does neither and blames nobody: the
// message may be good elsewhere or later. Reject is for what is provably bad;
// who forwarded it is punished.
const (
	Accept Verdict = iota
	Ignore
	Reject
)

// Message is what a topic delivers.
type Message struct {
	From wire.PeerID // who published it; the network has checked that
	Data []byte      // the receiver's own
	// Checked is what the topic's check made of Data.
	Checked any
}

// Check says what is to be done with a message, and hands what it made of it to the
// receiver, so that nothing is decoded twice.
type Check func(from wire.PeerID, b []byte) (made any, v Verdict)

// Topic is one joined topic.
type Topic struct {
	node  *Node
	name  string
	topic *pubsub.Topic
	sub   *pubsub.Subscription

	mu      sync.Mutex // makes drop-oldest one step, and ends deliveries on Leave
	inbox   chan Message
	left    bool
	dropped atomic.Uint64
}

// newMesh starts GossipSub with our own protocol id, content-hash message ids
// and penalties for rejected messages only.
func newMesh(ctx context.Context, n *Node) (*pubsub.PubSub, error) {
	params := pubsub.DefaultGossipSubParams()
	params.HistoryLength, params.HistoryGossip = 10, 5 // the links may be slow and lossy
	score := &pubsub.PeerScoreParams{
		SkipAtomicValidation: true,
		Topics:               map[string]*pubsub.TopicScoreParams{},
		AppSpecificScore:     func(peer.ID) float64 { return 0 },
		DecayInterval:        10 * time.Second, DecayToZero: 0.01,
		RetainScore: n.cfg.BanFor,
	}
	thresholds := &pubsub.PeerScoreThresholds{SkipAtomicValidation: true, GossipThreshold: -50, PublishThreshold: -80, GraylistThreshold: -100}
	return pubsub.NewGossipSub(ctx, n.host,
		pubsub.WithGossipSubProtocols([]protocol.ID{ProtoMesh}, func(f pubsub.GossipSubFeature, _ protocol.ID) bool {
			return f == pubsub.GossipSubFeatureMesh || f == pubsub.GossipSubFeatureIdontwant
		}),
		pubsub.WithGossipSubParams(params),
		pubsub.WithFloodPublish(true),
		pubsub.WithMessageSignaturePolicy(pubsub.StrictSign),
		pubsub.WithMessageIdFn(messageID),
		pubsub.WithMaxMessageSize(wire.MaxMessage+rpcOverhead),
		pubsub.WithPeerScore(score, thresholds),
		pubsub.WithSubscriptionFilter(pubsub.WrapLimitSubscriptionFilter(ourTopics{}, maxSubsOfPeer)),
		pubsub.WithValidateQueueSize(maxDeliverQueue),
		pubsub.WithValidateThrottle(maxDeliverQueue),
		pubsub.WithPeerOutboundQueueSize(256),
		pubsub.WithSeenMessagesTTL(seenFor),
		pubsub.WithRawTracer(rejections{n.gate}),
	)
}

// messageID is the same for the same bytes on a topic whoever publishes them,
// so a repeated statement is forwarded once.
func messageID(m *pb.Message) string {
	h := sha256.New()
	h.Write([]byte(m.GetTopic()))
	h.Write([]byte{0})
	h.Write(m.GetData())
	return string(h.Sum(nil))
}

// ourTopics lets peers subscribe to what starts with our prefix only.
type ourTopics struct{}

func (ourTopics) CanSubscribe(topic string) bool {
	return strings.HasPrefix(topic, TopicPrefix) && len(topic) <= maxTopicName
}

func (o ourTopics) FilterIncomingSubscriptions(_ peer.ID, subs []*pb.RPC_SubOpts) ([]*pb.RPC_SubOpts, error) {
	return pubsub.FilterSubscriptions(subs, o.CanSubscribe), nil
}

// Join subscribes to a topic, whose name starts with TopicPrefix, until Leave.
// check sees every message of others before it is delivered or forwarded; it is
// called concurrently and should take milliseconds. One topic can be joined once
// at a time.
func (n *Node) Join(topic string, check Check) (*Topic, error) {
	if !(ourTopics{}).CanSubscribe(topic) {
		return nil, fmt.Errorf("join topic %q: want %s and at most %d bytes", topic, TopicPrefix, maxTopicName)
	}
	err := n.mesh.RegisterTopicValidator(topic, n.validator(check), pubsub.WithValidatorTimeout(checkTimeout), pubsub.WithValidatorConcurrency(checksAtOnce))
	if err != nil {
		return nil, fmt.Errorf("join topic %q: %w", topic, err)
	}
	t := &Topic{node: n, name: topic, inbox: make(chan Message, inboxLen)}
	if err := t.open(); err != nil {
		return nil, fmt.Errorf("join topic %q: %w", topic, errors.Join(err, n.mesh.UnregisterTopicValidator(topic)))
	}
	return t, nil
}

func (t *Topic) open() (err error) {
	if t.topic, err = t.node.mesh.Join(t.name); err != nil {
		return err
	}
	// One rejected message takes 10 points, four the square of that: graylist.
	err = t.topic.SetScoreParams(&pubsub.TopicScoreParams{
		SkipAtomicValidation: true, TopicWeight: 1, TimeInMeshQuantum: time.Second,
		InvalidMessageDeliveriesWeight: -10, InvalidMessageDeliveriesDecay: 0.9,
	})
	if err == nil {
		// The filter delivers, so that no goroutine has to wait for messages.
		t.sub, err = t.topic.Subscribe(pubsub.WithBufferSize(1), pubsub.WithMessageFilter(t.deliver))
	}
	if err != nil {
		err = errors.Join(err, t.topic.Close())
	}
	return err
}

// validator asks check about messages of others.
func (n *Node) validator(check Check) pubsub.ValidatorEx {
	self := n.host.ID()
	return func(_ context.Context, via peer.ID, m *pubsub.Message) (r pubsub.ValidationResult) {
		if via == self {
			return pubsub.ValidationAccept
		}
		if len(m.Data) > wire.MaxMessage {
			return pubsub.ValidationReject
		}
		from, err := fromLibp2p(m.GetFrom())
		if err != nil {
			return pubsub.ValidationReject
		}
		r = pubsub.ValidationIgnore
		err = guard(func() error {
			made, v := check(from, m.Data)
			m.ValidatorData = made
			r = map[Verdict]pubsub.ValidationResult{Accept: pubsub.ValidationAccept, Reject: pubsub.ValidationReject, Ignore: pubsub.ValidationIgnore}[v]
			return nil
		})
		if err != nil {
			n.log.Error("check of a message failed", "topic", m.GetTopic(), "err", err)
		}
		return r
	}
}

// deliver puts a checked message into the inbox, over the oldest if it is full.
// It runs in the mesh's loop and never blocks; false keeps the message out of
// the library's own buffer.
func (t *Topic) deliver(m *pubsub.Message) bool {
	from, err := fromLibp2p(m.GetFrom())
	if err != nil || m.ReceivedFrom == t.node.host.ID() {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for !t.left {
		select {
		case t.inbox <- Message{From: from, Data: bytes.Clone(m.Data), Checked: m.ValidatorData}:
			return false
		default:
		}
		select {
		case <-t.inbox:
			t.dropped.Add(1)
		default:
		}
	}
	return false
}

// Publish sends b, at most wire.MaxMessage bytes, to all who joined the topic.
// It does not come back to this node's inbox. Errors: ErrTooBig; others when the
// node is closing.
func (t *Topic) Publish(ctx context.Context, b []byte) error {
	if len(b) > wire.MaxMessage {
		return fmt.Errorf("publish %d bytes on %s, limit %d: %w", len(b), t.name, wire.MaxMessage, ErrTooBig)
	}
	if err := t.topic.Publish(ctx, bytes.Clone(b)); err != nil {
		return fmt.Errorf("publish on %s: %w", t.name, err)
	}
	return nil
}

// Inbox delivers the messages of others. It holds 1024; a receiver that is
// slower loses the oldest, which Dropped counts. Leave closes it.
func (t *Topic) Inbox() <-chan Message { return t.inbox }

// Dropped returns how many messages the receiver was too slow for.
func (t *Topic) Dropped() uint64 { return t.dropped.Load() }

// Peers returns how many connected peers have joined the topic.
func (t *Topic) Peers() int { return len(t.topic.ListPeers()) }

// Leave ends the subscription and closes the inbox. A second Leave returns nil.
func (t *Topic) Leave() error {
	t.mu.Lock()
	if t.left {
		t.mu.Unlock()
		return nil
	}
	t.left = true
	close(t.inbox)
	t.mu.Unlock()
	t.sub.Cancel()
	if err := errors.Join(t.topic.Close(), t.node.mesh.UnregisterTopicValidator(t.name)); err != nil {
		return fmt.Errorf("leave topic %s: %w", t.name, err)
	}
	return nil
}

// rejections blames the peers that forward what the mesh rejects, bad
// signatures included. It implements pubsub.RawTracer.
type rejections struct{ gate *gater }

func (r rejections) RejectMessage(m *pubsub.Message, reason string) {
	switch reason {
	case pubsub.RejectValidationFailed, pubsub.RejectInvalidSignature, pubsub.RejectMissingSignature:
		r.gate.blame(m.ReceivedFrom, time.Now())
	}
}

func (rejections) OnNewOutboundStream(peer.ID, protocol.ID)             {}
func (rejections) OnClosedOutboundStream(peer.ID)                       {}
func (rejections) Join(string)                                          {}
func (rejections) Leave(string)                                         {}
func (rejections) Graft(peer.ID, string)                                {}
func (rejections) Prune(peer.ID, string)                                {}
func (rejections) ValidateMessage(*pubsub.Message)                      {}
func (rejections) DeliverMessage(*pubsub.Message)                       {}
func (rejections) DuplicateMessage(*pubsub.Message)                     {}
func (rejections) ThrottlePeer(peer.ID)                                 {}
func (rejections) RecvRPC(*pubsub.RPC)                                  {}
func (rejections) SendRPC(*pubsub.RPC, peer.ID)                         {}
func (rejections) SendRPCCompleted(*pubsub.RPC, peer.ID, time.Duration) {}
func (rejections) DropRPC(*pubsub.RPC, peer.ID)                         {}
func (rejections) UndeliverableMessage(*pubsub.Message)                 {}
