package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/adrg/xdg"
	"github.com/mattn/go-isatty"

	"github.com/apiary-net/hived/daemon"
)

// settings merges defaults, file, environment and flags.
func (a *app) settings() (daemon.Config, error) {
	path, must := a.config, true
	if path == "" {
		path, must = filepath.Join(xdg.ConfigHome, "hived", "config.toml"), false
	}
	c := daemon.DefaultConfig()
	b, err := os.ReadFile(path)
	switch {
	case err == nil:
		if err := daemon.DecodeConfig(path, b, &c); err != nil {
			return c, err
		}
	case must || !errors.Is(err, fs.ErrNotExist):
		return c, daemon.Fail(daemon.ExitConfig, err, "read configuration")
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
		return nil, daemon.Fail(daemon.ExitConfig, err, "log level")
	}
	o := &slog.HandlerOptions{Level: level}
	if c.Format == "json" || c.Format == "auto" && !isatty.IsTerminal(os.Stderr.Fd()) {
		return slog.New(slog.NewJSONHandler(os.Stderr, o)), nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, o)), nil
}
