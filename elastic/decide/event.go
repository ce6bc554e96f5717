package decide

import (
	"time"

	"github.com/apiary-net/hived/elastic/rules"
	"github.com/apiary-net/hived/wire"
)

// Event is something that happened to a Machine.
type Event interface{ event() }

// Heard is an envelope of the run whose signature is good, from anyone, also
// from this peer itself.
type Heard struct{ Env wire.Envelope }

// BodyChecked is the end of a fetch that FetchBody asked for.
type BodyChecked struct {
	Header wire.Digest
	Whole  bool
	Reason wire.Reason // when not whole and the bytes are bad; none: not to be had
	Nonce  []byte
	Merged []wire.CID // of a window's body
	Parts  []byte     // under a reduced topology, the parts that are here
}

// Trained is the end of the work that Train asked for; Header is to be signed.
// A zero Body means that there is nothing to send.
type Trained struct {
	Round  uint64
	Header wire.Header
}

// TrainFailed says that the local work of a round could not be done or kept, and
// may be tried again.
type TrainFailed struct {
	Round uint64
	Err   error
}

// Decided is a certificate, from the own engine or from another peer, whose
// signatures are good. Record is nil for a base decision and when the record's
// bytes are not known yet.
type Decided struct {
	Cert   wire.Cert
	Record *wire.Record
	Item   []byte // the encoding of both, if they came in it
}

// Started is record 0 with the creator's envelope around it.
type Started struct {
	Record *wire.Record
	Env    wire.Envelope
}

// appliedRound is the end of what Apply asked for: the version of a round exists
// here and is durable.
type Applied struct {
	Round   uint64
	Version wire.CID
	Merged  wire.CID
	Err     error // why it is not the one that was asked for
}

// GroupMerged is the end of what MergeGroup asked for.
type GroupMerged struct {
	Round  uint64
	Cut    wire.Digest
	Merged wire.CID    // of the merged update; zero when nothing counts
	Nonces wire.Digest // of what counts, in peer order
}

// Tick says that time has passed.
type Tick struct{}

// Persisted answers PersistRecord and PersistCert: what was decided is durable, and
// the agreement has heard of it. It is the next event after that batch; a caller whose
// write failed steps the machine no more.
type Persisted struct{}

// Begun says that the run begins here, and who is connected.
type Begun struct{ Connected []wire.PeerID }

// Due says once a second who is connected, and answers AskAround: somebody may be
// asked for what is lacking.
type Due struct{ Connected []wire.PeerID }

// Pulled is the end of a Pull and of what it brought.
type Pulled struct{ Peer wire.PeerID }

// Leaving says that this peer wants to leave, and whether nobody is connected. It is
// said again until a Left answers it.
type Leaving struct{ Alone bool }

// Connected says that the connection to a peer came up or went down.
type Connected struct {
	Peer wire.PeerID
	Up   bool
}

func (Heard) event()       {}
func (BodyChecked) event() {}
func (Trained) event()     {}
func (TrainFailed) event() {}
func (Decided) event()     {}
func (Started) event()     {}
func (Applied) event()     {}
func (GroupMerged) event() {}
func (Tick) event()        {}
func (Persisted) event()   {}
func (Begun) event()       {}
func (Due) event()         {}
func (Pulled) event()      {}
func (Leaving) event()     {}
func (Connected) event()   {}

// Command is something that a Machine wants done. A batch is executed in order. A
// PersistRecord or PersistCert is the last one of its batch.
type Command interface{ command() }

// PersistRecord makes a decided record durable, with what proves it: Cert, or
// for record 0 the creator's envelope.
type PersistRecord struct {
	Record *wire.Record
	Cert   *wire.Cert
	Start  *wire.Envelope
	Item   []byte // the encoding of the others, if it is known
}

// PersistCert makes the certificate of a base decision durable.
type PersistCert struct{ Cert *wire.Cert }

// Say signs a statement once per slot, makes it durable, announces it and feeds
// it back as Heard. If the slot holds another statement, that one is announced.
type Say struct {
	Kind  wire.Kind
	Round uint64
	Body  any
	Slot  string // empty: nothing is kept
	// Latest makes the slot hold the newest statement instead of the only one.
	Latest bool
	To     []wire.PeerID // whom it goes to; nil: everybody
}

// Train asks for the local work of a plan.
type Train struct {
	Plan  *rules.Plan
	Share rules.Share
	Prev  *wire.Record
}

// StopTraining abandons local work: its round was decided.
type StopTraining struct{ Round uint64 }

// FetchBody asks for a contribution's body, to be checked.
type FetchBody struct {
	Env    wire.Envelope
	Header wire.Header
	Base   wire.CID // version that it must be trained from; zero: not here yet
	// Parts is the bitmap of the parts to be fetched under a reduced topology; nil
	// is all of them.
	Parts []byte
	// From names those who may have it besides its sender; nil is all that are
	// connected.
	From []wire.PeerID
}

// ShowTo lets peers have the bodies of the open round.
type ShowTo struct{ Peers []wire.PeerID }

// ShowAll lets everybody have the bodies of the open round: its deadline has passed.
type ShowAll struct{}

// EndWindow ends the own window of a round: another member has ended it.
type EndWindow struct {
	Round uint64
	// Committed says that a member has said its header: a window that has not begun
	// yet is not begun. Else a member has lost its connection, and may come back.
	Committed bool
}

// Connect asks for the connections that the open round needs; a Connected that is
// not up answers for each peer that cannot be reached.
type Connect struct{ Peers []wire.PeerID }

// Rebroadcast has the engine say again what a new connection may lack.
type Rebroadcast struct{}

// AskAround asks for a Due at once.
type AskAround struct{}

// Pull asks a peer for what is lacking here. A Pulled answers it.
type Pull struct {
	Peer    wire.PeerID
	Request wire.PullRequest
}

// Waiting says for whom the open round waits beyond its deadline.
type Waiting struct {
	Round         uint64
	Peers, Voters []wire.PeerID
	Since         time.Duration
}

// Left says that this peer may go.
type Left struct{}

// StartInstance starts the engine.
type StartInstance struct {
	Instance       uint64
	Base, Proposal *wire.Record
}

// Apply asks for the version that a decided record gives. Attested is what more than
// a third of the weight computed, or zero.
type Apply struct {
	Record, Prev *wire.Record
	Attested     wire.Attest
}

// MergeGroup asks for the merge of what a group's cut counts, by its members.
type MergeGroup struct {
	Round   uint64
	View    *rules.GroupView
	Members []wire.PeerID
}

// FetchGroup asks for the merged update of another group, to be checked; a
// BodyChecked with the outcome's digest answers.
type FetchGroup struct {
	Round   uint64
	Outcome *wire.GroupOutcome
	Members []wire.PeerID
}

// RoundDone reports a decided round for people and metrics.
type RoundDone struct {
	Record *wire.Record
	Cert   *wire.Cert
	Took   time.Duration
}

// Wake asks for a Tick at a time.
type Wake struct{ At time.Time }

// Finished says that the run is over and the last version certified.
type Finished struct{ Record *wire.Record }

func (PersistRecord) command() {}
func (PersistCert) command()   {}
func (Say) command()           {}
func (Train) command()         {}
func (StopTraining) command()  {}
func (FetchBody) command()     {}
func (StartInstance) command() {}
func (Apply) command()         {}
func (Pull) command()          {}
func (AskAround) command()     {}
func (ShowTo) command()        {}
func (ShowAll) command()       {}
func (EndWindow) command()     {}
func (Connect) command()       {}
func (Rebroadcast) command()   {}
func (Waiting) command()       {}
func (Left) command()          {}
func (RoundDone) command()     {}
func (MergeGroup) command()    {}
func (FetchGroup) command()    {}
func (Wake) command()          {}
func (Finished) command()      {}
