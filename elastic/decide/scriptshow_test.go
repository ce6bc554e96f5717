package decide_test

import (
	"fmt"
	"strings"

	"github.com/apiary-net/hived/elastic/decide"
	"github.com/apiary-net/hived/wire"
)

// show writes a command as a line.
func (s *script) show(c decide.Command) string {
	switch c := c.(type) {
	case decide.PersistRecord:
		return fmt.Sprintf("persist record %d: %s", c.Record.Round, s.cut(c.Record))
	case decide.PersistCert:
		return fmt.Sprintf("persist base decision of instance %d", c.Cert.Instance)
	case decide.Say:
		return "say " + s.statement(c)
	case decide.Train:
		return fmt.Sprintf("train round %d, %d steps", c.Plan.Round, c.Share.Steps)
	case decide.StopTraining:
		return fmt.Sprintf("stop training of round %d", c.Round)
	case decide.FetchBody:
		return fmt.Sprintf("fetch body of %s%s", s.peer(c.Env.Sender), s.where(c))
	case decide.FetchGroup:
		return fmt.Sprintf("fetch result of group %d from %s", c.Outcome.Group, s.list(c.Members))
	case decide.MergeGroup:
		return fmt.Sprintf("merge cut of group %d, %d count, members %s", c.View.Outcome.Group, len(c.View.Counted), s.list(c.Members))
	case decide.ShowTo:
		return "show bodies to " + s.list(c.Peers)
	case decide.ShowAll:
		return "show bodies to all"
	case decide.EndWindow:
		return fmt.Sprintf("end window of round %d, committed %v", c.Round, c.Committed)
	case decide.StartInstance:
		with := "without a proposal"
		if c.Proposal != nil {
			with = fmt.Sprintf("with record %d", c.Proposal.Round)
		}
		return fmt.Sprintf("begin instance %d %s", c.Instance, with)
	case decide.Apply:
		return fmt.Sprintf("apply record %d, attested %v", c.Record.Round, !c.Attested.Version.IsZero())
	case decide.Pull:
		return fmt.Sprintf("pull from %s the records from %d, instance %d, knowing %d", s.peer(c.Peer), c.Request.Next, c.Request.Instance, len(c.Request.Known))
	case decide.Connect:
		return "connect to " + s.list(c.Peers)
	case decide.Waiting:
		return fmt.Sprintf("waiting for work of [%s] and words of [%s] since %v", s.list(c.Peers), s.list(c.Voters), c.Since)
	case decide.RoundDone:
		return fmt.Sprintf("round %d done after %v", c.Record.Round, c.Took)
	case decide.Wake:
		return fmt.Sprintf("wake at %v", c.At.Sub(s.begun))
	case decide.Finished:
		return fmt.Sprintf("finished with version %d", c.Record.Round)
	case decide.AskAround, decide.Rebroadcast, decide.Left:
		return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", c), "decide."))
	}
	s.t.Fatalf("no line for a %T", c)
	return ""
}

func (s *script) where(c decide.FetchBody) string {
	out := ""
	if c.Base.IsZero() {
		out += ", its base is not here"
	}
	if c.Parts != nil {
		out += ", parts " + bits(c.Parts)
	}
	if c.From != nil {
		out += ", or from " + s.list(c.From)
	}
	return out
}

// cut says what a record counts and why not the rest.
func (s *script) cut(r *wire.Record) string {
	var out []string
	for _, v := range r.Cut {
		word := map[wire.Status]string{wire.Counted: "counted", wire.Late: "late", wire.Absent: "absent", wire.Equivocated: "equivocated"}[v.Status]
		if v.Status == wire.Refused {
			word = "refused(" + v.Reason.String() + ")"
		}
		out = append(out, s.peer(v.Peer)+" "+word)
	}
	var active []wire.PeerID
	for _, seat := range r.Roster {
		if seat.Active {
			active = append(active, seat.Peer)
		}
	}
	if r.Last {
		out = append(out, "the last")
	}
	return fmt.Sprintf("%s; active %s; voters %s", strings.Join(out, ", "), s.list(active), s.list(r.Table.Peers()))
}

// statement says what is said, and to whom.
func (s *script) statement(c decide.Say) string {
	out := c.Kind.String()
	switch b := c.Body.(type) {
	case *wire.Have:
		for _, it := range b.Items {
			state := map[wire.HaveState]string{wire.HaveSeen: "seen", wire.HaveWhole: "whole", wire.HaveRefused: "refused"}[it.State]
			if len(it.Parts) > 0 {
				state += "(" + bits(it.Parts) + ")"
			}
			out += fmt.Sprintf(" %s:%s", s.headerOf(it.Header), state)
		}
	case *wire.Record:
		out += fmt.Sprintf(" of record %d: %s", b.Round, s.cut(b))
	case *wire.GroupCut:
		out += fmt.Sprintf(" of group %d: %d headers, %d HAVEs", b.Group, len(b.Headers), len(b.Haves))
	case *wire.GroupResult:
		out += fmt.Sprintf(" of group %d with %d signatures", b.Outcome.Group, len(b.Sigs)/64)
	}
	if c.To != nil {
		out += " to [" + s.list(c.To) + "]"
	}
	return fmt.Sprintf("%s, round %d", out, c.Round)
}
