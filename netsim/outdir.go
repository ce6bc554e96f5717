package netsim

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/apiary-net/hived/daemon/exit"
)

// takeDir makes an output directory and takes it for this process, unless another
// one writes there or it holds another scenario's files.
func takeDir(dir string, s *Scenario, force bool) (*exit.Lock, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, exit.Fail(exit.Resource, err, "make the output directory")
	}
	lock, err := exit.LockDir(dir, "output directory", "wait for it, or choose another with --out")
	if err != nil {
		return nil, err
	}
	if err := mayReplace(dir, s, force); err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	return lock, nil
}

const keepsIt = "nothing was changed; choose another directory with --out, or replace it with --force"

// mayReplace refuses to write a scenario's files over those of another one. The same
// scenario goes on, or is run again.
func mayReplace(dir string, s *Scenario, force bool) error {
	was, err := os.ReadFile(filepath.Join(dir, ScenarioFile))
	if err == nil && len(was) == 0 { // the disk was full when it was begun
		err = fs.ErrNotExist
	}
	if force || errors.Is(err, fs.ErrNotExist) && len(runFiles(dir)) == 0 {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return exit.Fail(exit.Usage, nil, "%s holds %s but no %s, so it is not known of which scenario: %s", dir, strings.Join(runFiles(dir), ", "), ScenarioFile, keepsIt)
	}
	if err != nil {
		return exit.Fail(exit.Resource, err, "read what the output directory holds")
	}
	now, err := toml.Marshal(s)
	if err != nil {
		return err
	}
	if line := firstChange(string(was), string(now)); line != "" {
		return exit.Fail(exit.Usage, nil, "%s holds another scenario, which says %s: %s", dir, line, keepsIt)
	}
	return nil
}

// runFiles returns the files of a run that a directory holds.
func runFiles(dir string) (out []string) {
	for _, f := range []string{EventsFile, RoundsFile, ResultFile, ReportFile} {
		if _, err := os.Stat(filepath.Join(dir, f)); err == nil {
			out = append(out, f)
		}
	}
	return out
}

// firstChange returns the first line in which two scenarios differ, or nothing.
func firstChange(was, now string) string {
	if was == now {
		return ""
	}
	a, b := strings.Split(was, "\n"), strings.Split(now, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return strings.TrimSpace(a[i]) + " where this one says " + strings.TrimSpace(b[i])
		}
	}
	return "more or less than this one"
}
