// Package exit is what every command of hived has in common before it does
// anything: exit codes and the errors that carry them, strict reading of TOML, and
// the lock of a directory. It knows nothing of peers and imports nothing of this
// module.
//
// A Failure is an error whose code the command ends with; an error without one is
// Failed. Unknown keys of a TOML file are errors that name the line and the key
// that was probably meant.
package exit
