package proof

import (
	"context"
	"io"
	"io/fs"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/elastic/version"
	"github.com/apiary-net/hived/train/weights"
	"github.com/apiary-net/hived/wire"
)

// ExportModel verifies an export's ledger and writes the parameters of its last
// certified version as safetensors: little-endian float32 under the tensors'
// names.
func ExportModel(ctx context.Context, dir fs.FS, w io.Writer) (wire.CID, error) {
	e, err := openExport(dir)
	if err != nil {
		return wire.CID{}, badExport(err)
	}
	last := e.attested[len(e.attested)-1]
	if last.Version.IsZero() {
		return wire.CID{}, exit.Fail(exit.Degraded, nil, "the last version is not certified by two thirds of the voters")
	}
	schema, _, _, err := e.start()
	if err != nil {
		return last.Version, err
	}
	m, err := version.NewModel(&e.g, schema)
	if err != nil {
		return last.Version, err
	}
	v, err := version.LoadVectors(ctx, e.g.Schema, last.Version, map[string]int{"params": schema.Params(), "outer": m.OuterLen()}, e.block)
	if err != nil {
		return last.Version, badExport(err)
	}
	return last.Version, weights.Write(w, weights.Named(schema, v["params"], nil), map[string]string{"format": "pt", "hived.version": last.Version.String(), "hived.run": e.run.String()})
}
