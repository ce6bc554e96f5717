package wire

import "time"

// What a round and its engine of agreement say to each other. Nothing of it leaves a
// process but the body of an EngineSend, which is a Vote.

// EngineEvent is something that happened to an engine: EngineStart, EngineVote,
// EngineAlarm or EngineRebroadcast.
type EngineEvent interface{ engineEvent() }

// EngineStart begins an instance. A nil Proposal votes for the base alone.
type EngineStart struct {
	Instance uint64
	Base     Tip
	Proposal *Tip
	Table    Table // that the instance uses
}

// EngineVote is a vote whose envelope was opened.
type EngineVote struct{ Env Envelope }

// EngineAlarm says that the time of the last EngineSetAlarm has come.
type EngineAlarm struct{}

// EngineRebroadcast asks for all own votes of the running instance again, for a peer
// that has just connected.
type EngineRebroadcast struct{}

func (EngineStart) engineEvent()       {}
func (EngineVote) engineEvent()        {}
func (EngineAlarm) engineEvent()       {}
func (EngineRebroadcast) engineEvent() {}

// EngineCommand is something that an engine wants done: EnginePersist, EngineSend,
// EngineSetAlarm or EngineDecide.
type EngineCommand interface{ engineCommand() }

// EnginePersist stores a sign-once slot; it is durable before any later command of
// the batch starts.
type EnginePersist struct{ Slot, Value []byte }

// EngineSend gives a vote of an instance to every voter. Body goes into an envelope
// of kind vote whose round is the instance.
type EngineSend struct {
	Instance uint64
	Body     []byte
}

// EngineSetAlarm replaces the alarm.
type EngineSetAlarm struct{ At time.Time }

// EngineDecide reports the end of the instance.
type EngineDecide struct{ Cert Cert }

func (EnginePersist) engineCommand()  {}
func (EngineSend) engineCommand()     {}
func (EngineSetAlarm) engineCommand() {}
func (EngineDecide) engineCommand()   {}
