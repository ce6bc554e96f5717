package tensorops

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// deepNet is blocks of convolution, batch norm and gelu; checkpointed or not.
func deepNet(blocks int, check bool) net {
	const b, side, c = 3, 8, 6
	return net{fmt.Sprint("deep-", check), func(g *Graph) V {
		x, y := g.Input("x", F32, b, side, side, c), g.Input("y", I32, b)
		v := x
		for i := range blocks {
			n := fmt.Sprint("l", i)
			block := func(x V) V {
				h := g.Conv(x, g.Param(n+"w", normal, true, c, 3, 3, c), V{}, 1, 1, None)
				p := BatchNorm{g.Param(n+"g", normal, false, c), g.Param(n+"s", normal, false, c), g.Buffer(n+"m", Init{}, c), g.Buffer(n+"v", Init{Scale: 1}, c), 1e-5, 0.1}
				return g.Add(x, g.Gelu(g.BatchNorm(h, V{}, p, None)))
			}
			if check {
				v = g.Checkpoint(v, block)
			} else {
				v = block(v)
			}
		}
		return g.CrossEntropy(g.Linear(g.Mean(v), g.Param("f", normal, true, 4, c), V{}, None), y)
	}, func(r *rand.Rand) Batch {
		return Batch{Float: [][]float32{floats(r, b*side*side*c)}, Int: [][]int32{labels(r, b, 4)}}
	}}
}

// TestCheckpoint checks that running a part again changes no bit, buffers included,
// and saves memory.
func TestCheckpoint(t *testing.T) {
	want, wantLoss := run(t, Reference(), deepNet(6, false))
	got, gotLoss := run(t, CPU(), deepNet(6, true))
	for i := range want {
		if math.Float32bits(want[i]) != math.Float32bits(got[i]) {
			t.Fatalf("element %d of %d is %v, want %v", i, len(want), got[i], want[i])
		}
	}
	if fmt.Sprint(wantLoss) != fmt.Sprint(gotLoss) {
		t.Errorf("losses %v, want %v", gotLoss, wantLoss)
	}
	arena := func(check bool) int {
		g := &Graph{}
		p, err := Compile(g, deepNet(6, check).build(g), Options{})
		if err != nil {
			t.Fatal(err)
		}
		return p.Arena
	}
	if plain, kept := arena(false), arena(true); kept*3 > plain*2 {
		t.Errorf("arena of %d, with checkpoints %d", plain, kept)
	}
}

// TestFrugalPlan gives a plan less memory than it would take: it keeps less, with
// the same losses, and is refused with a number below that.
func TestFrugalPlan(t *testing.T) {
	n := gptNet(2, 64, 2, 16, 64, 4)
	compileWith := func(limit int64) (*Plan, error) {
		g := &Graph{}
		return Compile(g, n.build(g), Options{MaxBytes: limit})
	}
	plain, err := compileWith(0)
	if err != nil {
		t.Fatal(err)
	}
	frugal, err := compileWith(plain.Peak - 1)
	if err != nil || frugal.Peak >= plain.Peak || len(frugal.Steps) <= len(plain.Steps) {
		t.Fatalf("frugal plan of %d bytes for %d: %v", frugal.Peak, plain.Peak, err)
	}
	if _, err := compileWith(frugal.Peak - 1); !errors.Is(err, ErrMemory) || !strings.Contains(err.Error(), fmt.Sprint(frugal.Peak)) {
		t.Errorf("one byte less: %v", err)
	}
	var losses []float64
	for _, p := range []*Plan{plain, frugal} {
		s := started(t, CPU(), p, 3, 1, 0.1)
		for step := range 2 {
			s.ZeroGrads()
			l, err := s.Step(context.Background(), n.batch(rand.New(rand.NewSource(8))))
			if err != nil {
				t.Fatal(err)
			}
			losses = append(losses, l)
			if err := s.Update(Optimizer{Rule: SGD}, UpdateArgs{LR: 0.1, Scale: 0.01, Step: uint64(step + 1)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if losses[0] != losses[2] || losses[1] != losses[3] {
		t.Errorf("losses %v", losses)
	}
}

// TestPeakIsMeasured compares a plan's peak with how much memory the process takes
// more once every buffer has been used.
func TestPeakIsMeasured(t *testing.T) {
	resident := func() int64 {
		for range 2 { // what the first collection finds in pools is freed by the second
			debug.FreeOSMemory()
		}
		b, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Skip("no /proc: ", err)
		}
		for _, l := range strings.Split(string(b), "\n") {
			var kb int64
			if _, err := fmt.Sscanf(l, "VmRSS: %d kB", &kb); err == nil {
				return kb << 10
			}
		}
		t.Skip("no VmRSS")
		return 0
	}
	if CPU().Info().Name == "reference" {
		t.Skip("built without cgo: too slow")
	}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector keeps memory of its own beside each buffer")
	}
	n := linearNet(512, 1024, 2048, 512, Gelu)
	g := &Graph{}
	p, err := Compile(g, n.build(g), Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := n.batch(rand.New(rand.NewSource(1)))
	before := resident()
	s := started(t, CPU(), p, 5, 0, 0.1)
	for range 8 { // a caller that the scheduler moves about takes no more buffers
		stepped := make(chan error)
		go func() {
			runtime.LockOSThread() // the thread ends with this goroutine
			_, err := s.Step(context.Background(), b)
			stepped <- err
		}()
		if err := <-stepped; err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Update(Optimizer{Rule: AdamW, Eps: 1e-8}, UpdateArgs{LR: 0.1, Scale: 0.01, Step: 1}); err != nil {
		t.Fatal(err)
	}
	grown := resident() - before
	runtime.KeepAlive(s)
	t.Logf("predicted %d, measured %d bytes", p.Peak, grown)
	// Above the prediction lie packing buffers of each thread, at most some MiB; below,
	// pages of earlier tests that were resident before and are taken again.
	if grown < p.Peak*8/10 || grown > p.Peak*11/10+(8<<20) {
		t.Errorf("predicted %d, measured %d bytes", p.Peak, grown)
	}
}
