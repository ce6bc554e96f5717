package daemon

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math"

	"github.com/apiary-net/hived/elastic"
	"github.com/apiary-net/hived/train"
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
		return wire.CID{}, Fail(ExitDegraded, nil, "the last version is not certified by two thirds of the voters")
	}
	schema, _, _, err := train.Start(e.g.Model.Name, e.args(), e.g.Seed)
	if err != nil {
		return last.Version, err
	}
	m, err := elastic.NewModel(&e.g, schema)
	if err != nil {
		return last.Version, err
	}
	v, err := elastic.LoadVectors(ctx, e.g.Schema, last.Version, map[string]int{"params": schema.Params(), "outer": m.OuterLen()}, e.block)
	if err != nil {
		return last.Version, badExport(err)
	}
	return last.Version, writeSafetensors(w, schema, v["params"], map[string]string{"format": "pt", "hived.version": last.Version.String(), "hived.run": e.run.String()})
}

// writeSafetensors writes the tensors of a flat vector: a length, a JSON header
// padded to 8 bytes, and the values.
func writeSafetensors(w io.Writer, schema wire.Schema, params []float32, meta map[string]string) error {
	type entry struct {
		DType   string    `json:"dtype"`
		Shape   []uint32  `json:"shape"`
		Offsets [2]uint64 `json:"data_offsets"`
	}
	head := map[string]any{"__metadata__": meta}
	at := uint64(0)
	for _, t := range schema {
		n := uint64(t.Len()) * 4
		head[t.Name] = entry{"F32", append([]uint32{}, t.Shape...), [2]uint64{at, at + n}}
		at += n
	}
	b, err := json.Marshal(head)
	if err != nil {
		return err
	}
	for len(b)%8 != 0 {
		b = append(b, ' ')
	}
	if _, err := w.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(b))), b...)); err != nil {
		return fmt.Errorf("write safetensors: %w", err)
	}
	buf := make([]byte, 0, 1<<16)
	for i, x := range params {
		buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(x))
		if len(buf) == cap(buf) || i == len(params)-1 {
			if _, err := w.Write(buf); err != nil {
				return fmt.Errorf("write safetensors: %w", err)
			}
			buf = buf[:0]
		}
	}
	return nil
}
