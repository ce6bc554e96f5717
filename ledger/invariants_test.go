//go:build invariants || race

package ledger

import (
	"strings"
	"testing"

	"github.com/apiary-net/hived/wire"
)

// A head that is not that of the stored entries is a panic at the next append.
func TestInvariantOfTheHead(t *testing.T) {
	for want, spoil := range map[string]func(*Log){
		"ledger: entry 1 of ":           func(l *Log) { l.st.Prev = wire.Digest{1} },
		"ledger: the head of 2 entries": func(l *Log) { _ = l.cfg.KV.Apply([][2][]byte{{numbered(nodeKey, 0), make([]byte, 32)}}, nil, true) },
	} {
		t.Run(want, func(t *testing.T) {
			l := open(t, newMemKV(), testKey(1))
			if _, err := l.Append(t.Context(), []wire.EntryBody{body(0)}); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, want) {
					t.Errorf("panicked with %q", text)
				}
			}()
			spoil(l)
			_, err := l.Append(t.Context(), []wire.EntryBody{body(1)})
			t.Error(err)
		})
	}
}
