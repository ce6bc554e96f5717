package main

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

//go:embed yardstick.py
var script string

// torch is a running python that answers for one PyTorch and number of threads.
type torch struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
	version string
}

// startTorch starts python without the variables that choose OpenBLAS kernels.
func startTorch(python string, threads int) (*torch, error) {
	cmd := exec.Command(python, "-u", "-c", script, fmt.Sprint(threads))
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "OPENBLAS_") && !strings.HasPrefix(e, "OMP_") && !strings.HasPrefix(e, "MKL_") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", python, err)
	}
	t := &torch{cmd: cmd, in: in, out: bufio.NewScanner(out)}
	if !t.out.Scan() {
		_ = cmd.Wait()
		return nil, fmt.Errorf("%s has no PyTorch; cure: make deps-test", python)
	}
	t.version = t.out.Text()
	return t, nil
}

// run runs name once and returns processor and wall seconds.
func (t *torch) run(name string) (sample, error) {
	if _, err := fmt.Fprintln(t.in, name); err != nil {
		return sample{}, err
	}
	if !t.out.Scan() {
		return sample{}, fmt.Errorf("PyTorch ended at %s", name)
	}
	var s sample
	if _, err := fmt.Sscan(t.out.Text(), &s.cpu, &s.wall); err != nil {
		return sample{}, fmt.Errorf("PyTorch: %s", t.out.Text())
	}
	return s, nil
}

func (t *torch) close() {
	_ = t.in.Close()
	done := time.AfterFunc(10*time.Second, func() { _ = t.cmd.Process.Kill() })
	_ = t.cmd.Wait()
	done.Stop()
}
