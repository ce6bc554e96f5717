package rules

import (
	"strings"
	"testing"

	"github.com/apiary-net/hived/wire"
)

// Positions that are lost, or open twice, are a panic.
func TestInvariantOfPositions(t *testing.T) {
	for want, returned := range map[string][]wire.Span{
		"":                       {{Lo: 0, Hi: 10}},
		"returns or lets ride":   {{Lo: 0, Hi: 9}},
		"that it counts,":        {{Lo: 0, Hi: 10}, {Lo: 4, Hi: 5}},
		"lets ride are []":       {},
		"ride are [{{} 0 9} {{}": {{Lo: 0, Hi: 9}, {Lo: 8, Hi: 10}},
	} {
		c := &composer{ballot: ballot{Setting: Setting{Plan: &Plan{Cursor: 10}, Prev: &wire.Record{}}}, rec: &wire.Record{Cursor: 10, Returned: returned}}
		func() {
			defer func() {
				if text, _ := recover().(string); (text == "") != (want == "") || !strings.Contains(text, want) {
					t.Errorf("%v returned of 0 to 10: panicked with %q", returned, text)
				}
			}()
			c.checkPositions()
		}()
	}
}
