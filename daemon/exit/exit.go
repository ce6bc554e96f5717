package exit

import (
	"errors"
	"fmt"
)

// Code is the exit code of the hived command.
type Code int

// Exit codes, as documented in `hived help exit-codes`.
const (
	OK           Code = 0
	Failed       Code = 1
	Usage        Code = 2
	Config       Code = 3
	NoDaemon     Code = 4
	Timeout      Code = 5
	Degraded     Code = 6
	NoPeer       Code = 7
	Refused      Code = 8
	Integrity    Code = 9
	Resource     Code = 10
	Incompatible Code = 11
	Interrupted  Code = 130
	Terminated   Code = 143
)

// Codes lists every code with its meaning, for the help text.
var Codes = []struct {
	Code    Code
	Meaning string
}{
	{OK, "done"},
	{Failed, "failed, not listed below"},
	{Usage, "wrong flag, argument or command"},
	{Config, "config refused (file and line in the message)"},
	{NoDaemon, "daemon not reachable"},
	{Timeout, "time limit reached (what was still missing is printed)"},
	{Degraded, "works but degraded"},
	{NoPeer, "no peer or bootstrap reachable"},
	{Refused, "refused: identity, allow-list"},
	{Integrity, "integrity: ledger, shard or model failed verification"},
	{Resource, "resource: disk, memory, permission, directory in use"},
	{Incompatible, "incompatible: model, data or protocol mismatch"},
	{Interrupted, "interrupted after a clean leave"},
	{Terminated, "terminated after a clean leave"},
}

// Failure is an error with an exit code.
type Failure struct {
	Code Code
	msg  string
	err  error
}

// Fail makes a Failure. err may be nil.
func Fail(code Code, err error, format string, args ...any) error {
	return &Failure{code, fmt.Sprintf(format, args...), err}
}

func (f *Failure) Error() string {
	if f.err == nil {
		return f.msg
	}
	return f.msg + ": " + f.err.Error()
}

func (f *Failure) Unwrap() error { return f.err }

// CodeOf returns the exit code of err.
func CodeOf(err error) Code {
	var f *Failure
	switch {
	case err == nil:
		return OK
	case errors.As(err, &f):
		return f.Code
	}
	return Failed
}
