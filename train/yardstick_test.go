//go:build long

package train

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	ops "github.com/apiary-net/hived/tensorops"
)

// TestLongYardsticks prints the PyTorch scripts' numbers for the same steps; it needs
// HIVED_YARDSTICKS, the folder that holds conv.py and gpt.py.
func TestLongYardsticks(t *testing.T) {
	dir := os.Getenv("HIVED_YARDSTICKS")
	if dir == "" {
		t.Skip("HIVED_YARDSTICKS names no folder with conv.py and gpt.py")
	}
	for _, script := range []string{"conv.py", "gpt.py"} {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		cmd := exec.CommandContext(ctx, "/usr/bin/python3", script)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "T=1", "BUD=5")
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
		t.Logf("%s:\n%s", script, out)
	}
	t.Logf("convnet step: %v", testing.Benchmark(BenchmarkConvnetStep))
	t.Logf("gpt step: %v", testing.Benchmark(BenchmarkGPTStep))
	t.Log("device: ", ops.CPU().Info())
}
