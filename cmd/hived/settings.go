package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/adrg/xdg"
	"github.com/mattn/go-isatty"

	"github.com/apiary-net/hived/daemon"
	"github.com/apiary-net/hived/daemon/exit"
)

// configPath is the configuration file: --config, else beside the data where
// --data-dir chose that, else the user's.
func (a *app) configPath() string {
	switch {
	case a.config != "":
		return a.config
	case a.dataDir != "":
		return filepath.Join(a.dataDir, "config.toml")
	}
	return filepath.Join(xdg.ConfigHome, "hived", "config.toml")
}

// maxSettings bounds the files that people write: configurations, run files,
// scenarios.
const maxSettings = 1 << 20

// readSettings reads such a file. It does not open what is none: a pipe would
// wait for ever.
func readSettings(path string) ([]byte, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if st.Mode()&(fs.ModeDir|fs.ModeNamedPipe|fs.ModeSocket) != 0 {
		return nil, fmt.Errorf("%s is not a regular file (%s)", path, st.Mode().Type())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSettings+1))
	if err == nil && len(b) > maxSettings {
		err = fmt.Errorf("%s has more than %d bytes", path, maxSettings)
	}
	return b, err
}

// settings merges defaults, file, environment and flags. A file that --config
// names must exist.
func (a *app) settings() (daemon.Config, error) { return a.load(a.config != "") }

func (a *app) load(must bool) (daemon.Config, error) {
	path := a.configPath()
	c := daemon.DefaultConfig()
	b, err := readSettings(path)
	switch {
	case err == nil:
		if err := daemon.DecodeConfig(path, b, &c); err != nil {
			return c, err
		}
	case must || !errors.Is(err, fs.ErrNotExist):
		return c, exit.Fail(exit.Config, err, "read configuration")
	}
	if err := daemon.ApplyEnv(&c, os.Environ()); err != nil {
		return c, err
	}
	c.DataDir = a.home()
	if d := os.Getenv("HIVED_DATA"); d != "" {
		c.Data = d
	}
	if a.logLevel != "" {
		c.Log.Level = a.logLevel
	}
	if a.logForm != "" {
		c.Log.Format = a.logForm
	}
	c.Logger, err = logger(c.Log)
	return c, err
}

// home is the data directory.
func (a *app) home() string {
	if a.dataDir != "" {
		return a.dataDir
	}
	return filepath.Join(xdg.DataHome, "hived")
}

// client talks to the daemon that the flags name.
func (a *app) client() (*daemon.Client, error) {
	api := a.api
	if api == "" {
		api = "unix://" + filepath.Join(a.home(), "hived.sock")
	}
	return daemon.NewClient(api)
}

// logger writes to standard error: text to a terminal, JSON elsewhere.
func logger(c daemon.LogConfig) (*slog.Logger, error) {
	level, err := daemon.ParseLevel(c.Level)
	if err != nil {
		return nil, exit.Fail(exit.Config, err, "log level")
	}
	o := &slog.HandlerOptions{Level: level}
	if c.Format == "json" || c.Format == "auto" && !isatty.IsTerminal(os.Stderr.Fd()) {
		return slog.New(slog.NewJSONHandler(os.Stderr, o)), nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, o)), nil
}
