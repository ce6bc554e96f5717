package elastic

import (
	"testing"

	"github.com/apiary-net/hived/elastic/version"
	"github.com/apiary-net/hived/wire"
)

// TestCertifiedIsNewerAndNamed asks what a snapshot may restore: what the next record
// certifies and is not here yet.
func TestCertifiedIsNewerAndNamed(t *testing.T) {
	id := wire.ManifestCID([]byte("v"))
	ask := func(have, next, certified, v uint64) bool {
		w := &worker{r: &Runner{chain: &chain{kv: mapKV{}}}, state: &version.State{Round: have}}
		w.r.chain.newest.Store(&wire.Record{Round: next, Certified: wire.Certified{Round: certified, Version: id}})
		got, ok := w.certified(v)
		return ok && got == id
	}
	if !ask(4, 7, 6, 6) {
		t.Error("a certified version is refused")
	}
	if ask(6, 7, 6, 6) || ask(4, 7, 5, 6) || ask(4, 7, 6, 5) || ask(4, 7, 6, 1<<64-1) {
		t.Error("a version that is here, or that the next record does not certify, is taken")
	}
}
