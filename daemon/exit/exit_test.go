package exit

import (
	"os"
	"testing"
)

func TestCodes(t *testing.T) {
	seen := map[Code]bool{}
	for _, e := range Codes {
		if seen[e.Code] || e.Meaning == "" {
			t.Errorf("code %d is listed twice or has no meaning", e.Code)
		}
		seen[e.Code] = true
	}
	for _, c := range []Code{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 130, 143} {
		if !seen[c] {
			t.Errorf("code %d is not listed", c)
		}
	}
	inner := Fail(Resource, os.ErrPermission, "write %s", "x")
	if CodeOf(nil) != 0 || CodeOf(os.ErrClosed) != 1 || CodeOf(inner) != 10 || inner.Error() != "write x: permission denied" {
		t.Errorf("%v", inner)
	}
}
