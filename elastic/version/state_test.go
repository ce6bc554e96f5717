package version

import (
	"context"
	"testing"

	"github.com/apiary-net/hived/wire"
)

// A manifest may name a state's values in bfloat16, or twice.
// What it gives would be kept under another name, so it is no state.
func TestLoadStateWantsItsOneManifest(t *testing.T) {
	m := fuzzModel(t, "none", "none")
	blocks := map[wire.CID][]byte{}
	put := func(b []byte) (wire.CID, error) {
		blocks[wire.RawCID(b)] = b
		return wire.RawCID(b), nil
	}
	get := func(_ context.Context, ids []wire.CID, got func(wire.CID, []byte) error) error {
		for _, id := range ids {
			if err := got(id, blocks[id]); err != nil {
				return err
			}
		}
		return nil
	}
	params := make([]float32, m.params)
	for name, c := range map[string]struct {
		vs []vector
		ok bool
	}{
		"its own":  {[]vector{{"params", "f32", params}}, true},
		"bfloat16": {[]vector{{"params", "bf16", params}}, false},
		"twice":    {[]vector{{"params", "f32", params}, {"params", "f32", params}}, false},
	} {
		id, err := manifestOf(m.digest, c.vs, put)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.LoadState(t.Context(), 3, id, get); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
