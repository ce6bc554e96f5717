package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	ops "github.com/apiary-net/hived/tensorops"
	"github.com/apiary-net/hived/tensorops/cpu"
	"github.com/apiary-net/hived/tensorops/num"
)

func noise(n int) []float32 {
	x := make([]float32, n)
	num.FillNormal(x, 3, uint64(n), 1)
	return x
}

// kernel makes a bench of a function that cannot fail, run so often.
func kernel(name string, torch []string, times int, open func() func()) bench {
	return bench{name, torch, func() (func() error, error) {
		f := open()
		return func() error {
			for range times {
				f()
			}
			return nil
		}, nil
	}}
}

// gemm is c = a b (or a b' where nt).
func gemm(m, n, k int, nt bool) func() func() {
	return func() func() {
		a, b, c := noise(m*k), noise(n*k), make([]float32, m*n)
		bm := cpu.Mat{P: b, Lane: 1, Depth: n}
		if nt {
			bm = cpu.Mat{P: b, Lane: k, Depth: 1}
		}
		return func() { cpu.Gemm(m, n, k, cpu.Mat{P: a, Lane: k, Depth: 1}, bm, c, n, false, cpu.Finish{}) }
	}
}

func training(name string, open func() (*trainer, error), torch ...string) bench {
	if torch == nil {
		torch = []string{name}
	}
	return bench{name, torch, func() (func() error, error) {
		t, err := open()
		if err != nil {
			return nil, err
		}
		return t.run, nil
	}}
}

func benches() []bench {
	formats := func(n string) []string { return []string{n + "/nchw", n + "/nhwc"} }
	return []bench{
		kernel("sgemm_1024", []string{"sgemm_1024/mm", "sgemm_1024/onednn"}, 1, gemm(1024, 1024, 1024, false)),
		kernel("sgemm_gpt_fc", []string{"sgemm_gpt_fc/mm", "sgemm_gpt_fc/onednn"}, 1, gemm(2048, 1536, 384, true)),
		kernel("sgemm_64", []string{"sgemm_64/mm"}, 2000, gemm(64, 64, 64, false)),
		training("mlp_step", mlp),
		training("gpt_fp32_step", func() (*trainer, error) { return gpt(ops.Options{}) }),
		{"gpt_bf16_step", []string{"gpt_fp32_step", "gpt_bf16_step"}, func() (func() error, error) {
			if !ops.HasBF16() {
				return nil, nil
			}
			t, err := gpt(ops.Options{Compute: ops.BF16})
			return t.run, err
		}},
		training("resnet8_28_step", func() (*trainer, error) { return resnet8(28, 1, 64) }, formats("resnet8_28_step")...),
		training("resnet8_64_step", func() (*trainer, error) { return resnet8(64, 3, 32) }, formats("resnet8_64_step")...),
		kernel("adamw", []string{"adamw"}, 1, func() func() {
			const n = 2 << 20
			p, m, v, g := noise(n), make([]float32, n), make([]float32, n), noise(n)
			c := cpu.Coef{1, 1e-3, 0.9, 0.999, 1e-8, 0.01, 10, 1000}
			return func() { cpu.AdamW(p, m, v, g, &c) }
		}),
		kernel("layernorm", []string{"layernorm"}, 10, func() func() {
			const n, c = 2048, 384
			x, g, b, y, stats := noise(n*c), noise(c), noise(c), make([]float32, n*c), make([]float32, 2*n)
			return func() { cpu.NormForward(n, c, 1e-5, x, nil, g, b, y, nil, stats) }
		}),
		kernel("layernorm_backward", []string{"layernorm_backward"}, 10, func() func() {
			const n, c = 2048, 384
			x, dy, g, b, y, stats := noise(n*c), noise(n*c), noise(c), noise(c), make([]float32, n*c), make([]float32, 2*n)
			dx, dg, db, part := make([]float32, n*c), make([]float32, c), make([]float32, c), make([]float32, n/64*2*c)
			cpu.NormForward(n, c, 1e-5, x, nil, g, b, y, nil, stats)
			return func() { cpu.NormBackward(n, c, x, stats, g, dy, nil, dx, dg, db, part) }
		}),
		kernel("gelu", []string{"gelu"}, 2, func() func() {
			x, y := noise(2048*1536), make([]float32, 2048*1536)
			return func() { cpu.GeluForward(x, y) }
		}),
	}
}

// rest prints what is not a ratio of times.
func (r *runner) rest() error {
	if r.match.MatchString("gpt_scaling_2t") {
		if err := r.scaling(); err != nil {
			return err
		}
	}
	if r.match.MatchString("gpt_peak_memory") {
		h, p, err := r.memoryOf()
		if err != nil {
			return err
		}
		fmt.Printf("# gpt_peak_memory: hived %.0f MiB, PyTorch %.0f MiB above what the process takes without a model\n", h/(1<<20), p/(1<<20))
		if p > 0 {
			fmt.Printf("RATIO gpt_peak_memory %.3f\n", h/p)
		} else {
			fmt.Printf("SKIP gpt_peak_memory %s\n", r.why)
		}
	}
	if r.gflops > 0 {
		var s []sample
		flops := 0.0
		for range 11 {
			one, err := measure(func() error { flops = cpu.Peak(20_000_000); return nil })
			if err != nil {
				return err
			}
			s = append(s, one)
		}
		fmt.Printf("VALUE gpt_gflops_per_cpu_second %.1f\n", r.gflops)
		fmt.Printf("VALUE machine_peak_gflops_per_cpu_second %.1f\n", flops/1e9/median(s).cpu)
	}
	return nil
}

// scaling compares wall times of one and two threads, in turn.
func (r *runner) scaling() error {
	t, err := gpt(ops.Options{})
	if err != nil {
		return err
	}
	with := func(n int) func() (sample, error) {
		return func() (sample, error) {
			if got := ops.SetThreads(n); got != n {
				return sample{}, fmt.Errorf("%d threads wanted, %d to be had", n, got)
			}
			return measure(t.run)
		}
	}
	got, err := take(r.budget, []func() (sample, error){with(1), with(2)})
	if err != nil {
		return err
	}
	fmt.Printf("# gpt_scaling_2t: wall %.1f ms with one thread, %.1f with two\n", got[0].wall*1e3, got[1].wall*1e3)
	fmt.Printf("VALUE gpt_scaling_2t %.3f\n", got[0].wall/got[1].wall)
	fmt.Printf("VALUE gpt_cpu_1t_over_2t %.3f\n", got[0].cpu/got[1].cpu) // what a busy machine leaves to see
	return nil
}

// printMemory trains a GPT and prints by how much the peak grew, in bytes.
func printMemory() error {
	base := resident("VmRSS")
	t, err := gpt(ops.Options{})
	if err != nil {
		return err
	}
	debug.FreeOSMemory() // the start values were copied into the session
	for range 4 {
		if err := t.run(); err != nil {
			return err
		}
	}
	fmt.Println(resident("VmHWM") - base)
	return nil
}

// resident reads a field of /proc/self/status, in bytes; 0 where there is none.
func resident(field string) int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for _, l := range strings.Split(string(b), "\n") {
		var kb int64
		if strings.HasPrefix(l, field) {
			if _, err := fmt.Sscan(strings.TrimPrefix(l, field+":"), &kb); err == nil {
				return kb << 10
			}
		}
	}
	return 0
}
