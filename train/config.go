package train

import (
	"context"
	"errors"
	"fmt"

	ops "github.com/apiary-net/hived/tensorops"
	"github.com/apiary-net/hived/train/data"
	"github.com/apiary-net/hived/train/nets"
)

// Config of a Trainer.
type Config struct {
	// Model is what is trained; sizes of 0 are the model's defaults.
	Model nets.Spec
	// Data is what positions mean; its kind must be the model's.
	Data data.Set
	// Optimizer makes the local steps.
	Optimizer OptimizerSpec
	// Seed chooses start values and the order of samples.
	Seed uint64
	// Threads of the CPU device, 1 to 256; 0 leaves the process's setting.
	Threads int
	// Device computes; nil is the CPU.
	Device ops.Device
	// Compute is F32, or BF16 for the products of linear layers and attention in
	// training.
	Compute ops.DType
	// MaxBytes bounds the memory of a plan; 0 is no bound.
	MaxBytes int64
	// Stepped, if set, is called after each local step and each Gradient, by the
	// goroutine that the trainer belongs to. A trainer goes on when it returns.
	Stepped func(context.Context)
}

// Validate checks c.
func (c Config) Validate() error {
	m, err := nets.New(c.Model)
	if err != nil {
		return err
	}
	if c.Data == nil {
		return errors.New("train without data")
	}
	if err := nets.Fits(m.Form(), c.Data.Form()); err != nil {
		return fmt.Errorf("model %s does not fit data set %s: %w", c.Model.Name, c.Data.Name(), err)
	}
	if c.Data.Len(data.Train) == 0 {
		return fmt.Errorf("data set %s has no samples to train on", c.Data.Name())
	}
	if c.Threads < 0 || c.Threads > 256 {
		return fmt.Errorf("threads %d, want 0 to 256", c.Threads)
	}
	return c.Optimizer.Validate()
}

// Default returns the tuned configuration of a task, mnist or text, without data.
// It panics for another task; Open tells of those first.
func Default(task string) Config {
	switch task {
	case "mnist":
		return Config{Model: nets.Spec{Name: "convnet"},
			Optimizer: OptimizerSpec{Rule: "adamw", LR: 1.5e-3, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, WeightDecay: 0.01, Batch: 64}}
	case "text":
		return Config{Model: nets.Spec{Name: "gpt", Layers: 2, Dim: 128, Heads: 4, Context: 128},
			Optimizer: OptimizerSpec{Rule: "adamw", LR: 2e-3, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, WeightDecay: 0.1, Clip: 1, Batch: 8}}
	}
	panic("train: no default for task " + task)
}
