package train

import (
	"context"
	"testing"
	"time"

	"github.com/apiary-net/hived/train/data"
	"github.com/apiary-net/hived/train/nets"
	"github.com/apiary-net/hived/wire"
)

// noise is a data set of made-up samples, for speed and for tests of mechanics.
type noise struct {
	kind  string
	terms int
	n     int
}

func (n noise) Name() string { return "noise" }
func (n noise) Form() data.Form {
	if n.kind == "image" {
		return data.Form{Kind: "image", Dims: []int{data.Side, data.Side, 1}, Classes: 10, Terms: n.terms}
	}
	return data.Form{Kind: "text", Dims: []int{n.terms}, Classes: data.Bytes, Terms: n.terms}
}
func (n noise) Len(split string) int {
	if split != data.Train && split != data.Test {
		return 0
	}
	return n.n
}
func (n noise) Digest() (wire.Digest, error) { return wire.Digest{}, nil }
func (n noise) Batch(_ string, idx []int, dst *data.Batch) error {
	for k, i := range idx {
		for j := range n.terms {
			h := data.Mix(uint64(i*n.terms + j))
			dst.Labels[k*n.terms+j] = int32(h % 10)
			if n.kind == "text" {
				dst.Int[k*n.terms+j] = int32(h >> 8 % 256 & 255)
			}
		}
		if n.kind == "image" {
			for j := range data.Side * data.Side {
				dst.Float[k*data.Side*data.Side+j] = float32(data.Mix(uint64(i*data.Side*data.Side+j))>>40)/(1<<23) - 1
			}
		}
	}
	return nil
}

func benchStep(b *testing.B, c Config, batch int) {
	c.Threads = 1
	c.Optimizer.Batch = batch
	t, err := New(c)
	if err != nil {
		b.Fatal(err)
	}
	defer t.Close()
	job := Job{Spans: []wire.Span{{Lo: 0, Hi: uint64(batch)}}}
	if _, err := t.Train(context.Background(), job); err != nil { // first touch of the memory
		b.Fatal(err)
	}
	cpu, steps := time.Duration(0), 0
	for b.Loop() {
		u, err := t.Train(context.Background(), job)
		if err != nil {
			b.Fatal(err)
		}
		cpu += u.CPU
		steps += u.Steps
	}
	b.ReportMetric(cpu.Seconds()*1e3/float64(steps), "cpu-ms/step")
}

func convConfig() Config {
	c := Default("mnist")
	c.Data = noise{"image", 1, 4096}
	return c
}

func gptConfig() Config {
	c := Default("text")
	c.Model = nets.Spec{Name: "gpt", Layers: 6, Dim: 384, Heads: 6, Context: 256}
	c.Data = noise{"text", 256, 4096}
	return c
}

func resnetConfig() Config {
	c := convConfig()
	c.Model.Name = "resnet"
	return c
}

func BenchmarkConvnetStep(b *testing.B) { benchStep(b, convConfig(), 64) }
func BenchmarkResnetStep(b *testing.B)  { benchStep(b, resnetConfig(), 64) }
func BenchmarkGroupNormStep(b *testing.B) {
	c := resnetConfig()
	c.Model.Norm = 2
	benchStep(b, c, 64)
}
func BenchmarkLlamaStep(b *testing.B) {
	c := gptConfig()
	c.Model = nets.Spec{Name: "gpt", Style: 2, Layers: 4, Dim: 192, Heads: 6, KVHeads: 3, Context: 256}
	benchStep(b, c, 8)
}
func BenchmarkGPTStep(b *testing.B) { benchStep(b, gptConfig(), 8) }
