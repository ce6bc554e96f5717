package version

import (
	"errors"

	"github.com/apiary-net/hived/tensorops/codec"
	"github.com/apiary-net/hived/tensorops/merge"
	"github.com/apiary-net/hived/wire"
)

// Known reports what of g's arithmetic this program does not have: a genesis of a
// later version may name a codec, an aggregator or an outer step that is not here.
func Known(g *wire.Genesis) error {
	_, cerr := codec.New(g.Preset.Codec)
	_, merr := merge.NewRule(g.Preset.Aggregator)
	_, oerr := merge.NewOuter(g.Preset.Outer.Rule)
	return errors.Join(cerr, merr, oerr)
}

// OpenGenesis opens a genesis to take part in its run or to replay it: one of which
// everything is known.
func OpenGenesis(sealed []byte) (wire.Genesis, wire.RunID, error) {
	g, id, err := wire.OpenGenesis(sealed)
	if err == nil {
		err = Known(&g)
	}
	return g, id, err
}
