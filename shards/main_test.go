package shards

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// childEnv makes the test binary the child of a crash test: it writes to the
// directory named there until it is killed.
const childEnv = "HIVED_SHARDS_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		crashChild(dir)
		return
	}
	code := m.Run()
	if code == 0 {
		if s := leaked(5 * time.Second); s != "" {
			fmt.Fprintln(os.Stderr, "leaked goroutines:\n"+s)
			code = 1
		}
	}
	os.Exit(code)
}

// leaked waits for goroutines of this package and of Badger to end and returns
// the stacks of those that did not.
func leaked(limit time.Duration) string {
	buf := make([]byte, 1<<20)
	for deadline := time.Now().Add(limit); ; runtime.Gosched() {
		var left []string
		for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "hived/shards.") && !strings.Contains(g, "shards.TestMain") || strings.Contains(g, "badger/v4.") {
				left = append(left, g)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
	}
}
