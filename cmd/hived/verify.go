package main

import "github.com/spf13/cobra"

func (a *app) modelCmd() *cobra.Command                       { return &cobra.Command{Use: "model"} }
func (a *app) ledgerCmd() *cobra.Command                      { return &cobra.Command{Use: "ledger"} }
func (a *app) export(c *cobra.Command, run, dir string) error { return nil }
