package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"

	ops "github.com/apiary-net/hived/tensorops"
)

// sample is what one run took, in seconds.
type sample struct{ cpu, wall float64 }

// bench is one comparison: hived's run, and the names that PyTorch has for it.
type bench struct {
	name  string
	torch []string
	open  func() (func() error, error)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "computebench:", err)
		os.Exit(1)
	}
}

func run() error {
	only := flag.String("only", "", "regular expression of the names to run")
	budget := flag.Duration("budget", 12*time.Second, "time of one comparison")
	threads := flag.Int("threads", 1, "threads of both sides")
	python := flag.String("python", "/usr/bin/python3", "python with the PyTorch to compare with")
	memory := flag.Bool("memory", false, "print how much a GPT training needs, and end")
	flag.Parse()
	if *memory {
		return printMemory()
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	if got := ops.SetThreads(*threads); got != *threads {
		return fmt.Errorf("%d threads wanted, %d to be had", *threads, got)
	}
	r := &runner{budget: *budget, match: match, python: *python}
	defer r.close()
	if r.old, err = startTorch(*python, *threads); err != nil {
		r.why = err.Error()
	}
	if p := os.Getenv("HIVED_TORCH_NEW"); p != "" {
		if r.new, err = startTorch(p, *threads); err != nil {
			return err
		}
	}
	fmt.Printf("# device %+v, %d threads, PyTorch %s, beside it %s\n", ops.CPU().Info(), *threads, r.old.name(), r.new.name())
	for _, b := range benches() {
		if match.MatchString(b.name) {
			if err := r.compare(b); err != nil {
				return fmt.Errorf("%s: %w", b.name, err)
			}
		}
	}
	return r.rest()
}

func (t *torch) name() string {
	if t == nil {
		return "none"
	}
	return t.version
}

type runner struct {
	budget   time.Duration
	match    *regexp.Regexp
	python   string
	why      string // there is no PyTorch
	old, new *torch
	gflops   float64
}

func (r *runner) close() {
	for _, t := range []*torch{r.old, r.new} {
		if t != nil {
			t.close()
		}
	}
}

const clockProcess = 2 // CLOCK_PROCESS_CPUTIME_ID of clock_gettime(2)

// cpuTime returns the processor seconds of all threads; Linux only.
func cpuTime() float64 {
	var t syscall.Timespec
	if _, _, e := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockProcess, uintptr(unsafe.Pointer(&t)), 0); e != 0 {
		return 0
	}
	return float64(t.Nano()) / 1e9
}

func measure(f func() error) (sample, error) {
	cpu, wall := cpuTime(), time.Now()
	err := f()
	return sample{cpuTime() - cpu, time.Since(wall).Seconds()}, err
}

func median(s []sample) sample {
	var c, w []float64
	for _, x := range s {
		c, w = append(c, x.cpu), append(w, x.wall)
	}
	slices.Sort(c)
	slices.Sort(w)
	return sample{c[len(c)/2], w[len(w)/2]}
}

// take measures everyone in turn until the budget is spent.
func take(budget time.Duration, who []func() (sample, error)) ([]sample, error) {
	all := make([][]sample, len(who))
	for start := time.Now(); len(all[0]) < 5 || time.Since(start) < budget && len(all[0]) < 101; {
		for i, f := range who {
			s, err := f()
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], s)
		}
	}
	out := make([]sample, len(who))
	for i, s := range all {
		out[i] = median(s)
	}
	return out, nil
}

func (r *runner) compare(b bench) error {
	f, err := b.open()
	if err != nil {
		return err
	}
	if f == nil {
		fmt.Printf("SKIP %s this processor has no instructions for it\n", b.name)
		return nil
	}
	for range 2 {
		if err := f(); err != nil {
			return err
		}
	}
	who := []func() (sample, error){func() (sample, error) { return measure(f) }}
	label, variant := []string{"hived"}, []string{""}
	for _, t := range []*torch{r.old, r.new} {
		for _, n := range b.torch {
			if t == nil {
				continue
			}
			if _, err := t.run(n); err != nil { // this PyTorch lacks it
				fmt.Printf("# %s: PyTorch %s: %v\n", n, t.version, err)
				continue
			}
			who = append(who, func() (sample, error) { return t.run(n) })
			label, variant = append(label, t.version), append(variant, n)
		}
	}
	got, err := take(r.budget, who)
	if err != nil {
		return err
	}
	r.report(b.name, label, variant, got)
	return nil
}

// report prints the ratio to the fastest variant of each PyTorch.
func (r *runner) report(name string, label, variant []string, got []sample) {
	fmt.Printf("# %s: hived %.3f cpu-ms, %.3f wall-ms\n", name, got[0].cpu*1e3, got[0].wall*1e3)
	if name == "gpt_fp32_step" {
		r.gflops = flopsGPT / 1e9 / got[0].cpu
	}
	for i, t := range []*torch{r.old, r.new} {
		if t == nil {
			if i == 0 {
				fmt.Printf("SKIP %s %s\n", name, r.why)
			}
			continue
		}
		best := sample{}
		for j, l := range label {
			if l == t.version && (best.cpu == 0 || got[j].cpu < best.cpu) {
				best = got[j]
			}
		}
		if best.cpu == 0 {
			continue
		}
		for j, l := range label { // what the faster of several is compared with hides
			if name == "gpt_bf16_step" && l == t.version {
				fmt.Printf("# %s: of PyTorch %s %s %.3f\n", name, l, variant[j], got[0].cpu/got[j].cpu)
			}
		}
		fmt.Printf("# %s: PyTorch %s %.3f cpu-ms, %.3f wall-ms, wall ratio %.3f\n", name, t.version, best.cpu*1e3, best.wall*1e3, got[0].wall/best.wall)
		fmt.Printf("%s %s %.3f\n", []string{"RATIO", "NEWEST"}[i], name, got[0].cpu/best.cpu)
	}
}

// memoryOf runs this program or python as a process of its own, which prints its
// peak first.
func (r *runner) memoryOf() (hived, pytorch float64, err error) {
	out, err := exec.Command(os.Args[0], "-memory").Output()
	if err == nil {
		_, err = fmt.Sscan(strings.TrimSpace(string(out)), &hived)
	}
	if err != nil || r.old == nil {
		return hived, 0, err
	}
	t, err := startTorch(r.python, 1)
	if err != nil {
		return 0, 0, err
	}
	defer t.close()
	s, err := t.run("memory")
	return hived, s.cpu, err
}
