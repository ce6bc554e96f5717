package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/train/nets"
	"github.com/apiary-net/hived/train/weights"
)

// generated is what `hived generate --json` prints.
type generated struct {
	Schema string  `json:"schema"` // hived.generate/v1
	IDs    []int32 `json:"ids"`    // the prompt's and the new ones
	Text   string  `json:"text,omitempty"`
}

// generateFlags are those of `hived generate`.
type generateFlags struct {
	prompt, ids, tokenizer string
	tokens, topK, given    int // given: of the prompt
	temperature            float64
	seed                   uint64
}

func (a *app) generateCmd() *cobra.Command {
	var f generateFlags
	cmd := &cobra.Command{Use: "generate MODEL", Short: "Continue a text with a model", Args: cobra.ExactArgs(1),
		Long: `Continues a text with a decoder: a folder with config.json and safetensors under
the names of Hugging Face (Llama, GPT-2), or the folder or file of a training.`,
		RunE: func(c *cobra.Command, args []string) error { return a.generate(c, args[0], &f) }}
	fl := cmd.Flags()
	fl.StringVarP(&f.prompt, "prompt", "p", "", "text to continue")
	fl.StringVar(&f.ids, "ids", "", "tokens to continue, by number, with commas")
	fl.StringVar(&f.tokenizer, "tokenizer", "", "tokenizer.json (default: the model's; without one, bytes)")
	fl.IntVarP(&f.tokens, "tokens", "n", 200, "new tokens at most")
	fl.IntVar(&f.topK, "top-k", 0, "choose from the best K; 0: all")
	fl.Float64Var(&f.temperature, "temperature", 0.8, "0: always the best")
	fl.Uint64Var(&f.seed, "seed", 1, "seed of the choices")
	return cmd
}

func (a *app) generate(c *cobra.Command, model string, f *generateFlags) error {
	if f.tokens < 1 || f.temperature < 0 || f.topK < 0 || (f.ids != "") == (f.prompt != "") {
		return exit.Fail(exit.Usage, nil, "--tokens %d, --temperature %v, --top-k %d: want at least 1, 0 and 0, and one of --prompt and --ids", f.tokens, f.temperature, f.topK)
	}
	if p := filepath.Join(model, "tokenizer.json"); f.tokenizer == "" {
		if _, err := os.Stat(p); err == nil {
			f.tokenizer = p
		}
	}
	g, err := nets.OpenGenerator(model, f.tokenizer)
	if err != nil {
		return exit.Fail(exit.Failed, err, "open model %s", model)
	}
	ids, err := f.start(g)
	if err != nil {
		return err
	}
	out, stream := c.OutOrStdout(), !a.json && f.prompt != ""
	if stream {
		fmt.Fprint(out, f.prompt)
	}
	for at := 0; at < len(ids) && c.Context().Err() == nil; at++ {
		scores, err := g.Next(ids[at])
		if err != nil {
			return exit.Fail(exit.Failed, err, "generate token %d", at)
		}
		if at < len(ids)-1 || len(ids) >= f.most(g) {
			continue
		}
		next := g.Choose(scores, f.temperature, f.topK, f.seed)
		ids = append(ids, next)
		if stream {
			text, err := g.Decode(ids[len(ids)-1:])
			if err != nil {
				return exit.Fail(exit.Failed, err, "generate token %d", at)
			}
			fmt.Fprint(out, text)
		}
	}
	return a.printGenerated(c, g, ids, stream)
}

// most is the number of tokens, prompt included.
func (f *generateFlags) most(g *nets.Generator) int { return min(g.Context(), f.tokens+f.given) }

// start reads the prompt.
func (f *generateFlags) start(g *nets.Generator) (ids []int32, err error) {
	if f.prompt != "" {
		ids, err = g.Encode(f.prompt)
		if err != nil {
			return nil, exit.Fail(exit.Usage, err, "read the prompt; --ids takes numbers")
		}
	} else {
		for _, s := range strings.Split(f.ids, ",") {
			n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 32)
			if err != nil || n < 0 || int(n) >= g.Vocab() {
				return nil, exit.Fail(exit.Usage, nil, "--ids: %q is no token from 0 to %d", s, g.Vocab()-1)
			}
			ids = append(ids, int32(n))
		}
	}
	if len(ids) >= g.Context() {
		return nil, exit.Fail(exit.Usage, nil, "the prompt has %d tokens, the model's context %d", len(ids), g.Context())
	}
	f.given = len(ids)
	return ids, nil
}

func (a *app) printGenerated(c *cobra.Command, g *nets.Generator, ids []int32, streamed bool) error {
	text, err := g.Decode(ids)
	if err != nil {
		text = ""
	}
	switch {
	case a.json:
		return printJSON(c, generated{"hived.generate/v1", ids, text})
	case streamed:
		fmt.Fprintln(c.OutOrStdout())
	default:
		fmt.Fprintln(c.OutOrStdout(), strings.Trim(strings.Join(strings.Fields(fmt.Sprint(ids)), ","), "[]"))
	}
	return nil
}

// hfCmd converts a training's model.
func hfCmd() *cobra.Command {
	return &cobra.Command{Use: "hf MODEL DIR", Short: "Write a gpt under the names of Hugging Face, adapters added in", Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			if err := nets.ExportHF(args[0], args[1]); err != nil {
				return exit.Fail(exit.Failed, err, "export %s", args[0])
			}
			fmt.Fprintf(c.OutOrStdout(), "wrote config.json and %s to %s\n", weights.ModelFile, args[1])
			return nil
		}}
}
