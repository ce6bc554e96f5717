package train

import (
	"fmt"

	"github.com/apiary-net/hived/train/data"
	"github.com/apiary-net/hived/wire"
)

// formats are the data sets that a swarm may train on, by the name in its genesis,
// and what format their files have.
var formats = map[string]string{"mnist": "mnist", "text": "sources"}

// DataOf says where the data of a run lie on this machine: in dir, or where the
// format finds them by itself. Their root decides whether they are the run's.
func DataOf(c wire.DataContract, dir string) (data.Spec, error) {
	f, ok := formats[c.Name]
	if !ok {
		return data.Spec{}, fmt.Errorf("data %q of a run: have mnist, text", c.Name)
	}
	return data.Spec{Format: f, Path: dir}, nil
}

// OpenDataOf opens the data of a run.
func OpenDataOf(c wire.DataContract, dir string) (data.Set, error) {
	d, err := DataOf(c, dir)
	if err != nil {
		return nil, err
	}
	return data.Open(d)
}
