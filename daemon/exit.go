package daemon

import (
	"errors"
	"fmt"
)

// ExitCode is the exit code of the hived command.
type ExitCode int

// Exit codes, as documented in `hived help exit-codes`.
const (
	ExitOK           ExitCode = 0
	ExitFailed       ExitCode = 1
	ExitUsage        ExitCode = 2
	ExitConfig       ExitCode = 3
	ExitNoDaemon     ExitCode = 4
	ExitTimeout      ExitCode = 5
	ExitDegraded     ExitCode = 6
	ExitNoPeer       ExitCode = 7
	ExitRefused      ExitCode = 8
	ExitIntegrity    ExitCode = 9
	ExitResource     ExitCode = 10
	ExitIncompatible ExitCode = 11
	ExitInterrupted  ExitCode = 130
	ExitTerminated   ExitCode = 143
)

// ExitCodes lists every code with its meaning, for the help text.
var ExitCodes = []struct {
	Code    ExitCode
	Meaning string
}{
	{ExitOK, "done"},
	{ExitFailed, "failed, not listed below"},
	{ExitUsage, "wrong flag, argument or command"},
	{ExitConfig, "config refused (file and line in the message)"},
	{ExitNoDaemon, "daemon not reachable"},
	{ExitTimeout, "time limit reached (what was still missing is printed)"},
	{ExitDegraded, "works but degraded"},
	{ExitNoPeer, "no peer or bootstrap reachable"},
	{ExitRefused, "refused: identity, allow-list"},
	{ExitIntegrity, "integrity: ledger, shard or model failed verification"},
	{ExitResource, "resource: disk, memory, permission, directory in use"},
	{ExitIncompatible, "incompatible: model, data or protocol mismatch"},
	{ExitInterrupted, "interrupted after a clean leave"},
	{ExitTerminated, "terminated after a clean leave"},
}

// Failure is an error with an exit code.
type Failure struct {
	Code ExitCode
	msg  string
	err  error
}

// Fail makes a Failure. err may be nil.
func Fail(code ExitCode, err error, format string, args ...any) error {
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
func CodeOf(err error) ExitCode {
	var f *Failure
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &f):
		return f.Code
	}
	return ExitFailed
}
