package daemon

import (
	"os"
	"testing"
)

func TestExitCodes(t *testing.T) {
	seen := map[ExitCode]bool{}
	for _, e := range ExitCodes {
		if seen[e.Code] || e.Meaning == "" {
			t.Errorf("code %d is listed twice or has no meaning", e.Code)
		}
		seen[e.Code] = true
	}
	for _, c := range []ExitCode{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 130, 143} {
		if !seen[c] {
			t.Errorf("code %d is not listed", c)
		}
	}
	inner := Fail(ExitResource, os.ErrPermission, "write %s", "x")
	if CodeOf(nil) != 0 || CodeOf(os.ErrClosed) != 1 || CodeOf(inner) != 10 || inner.Error() != "write x: permission denied" {
		t.Errorf("%v", inner)
	}
}
