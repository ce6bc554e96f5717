package train

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/apiary-net/hived/train/data"
	"github.com/apiary-net/hived/train/weights"
)

// Names of the files that a training leaves in its folder.
const (
	CheckpointFile = "checkpoint.safetensors"
	bestFile       = "best.safetensors"
	CurveFile      = "curve.csv"
)

// checkpoint is a training at the end of a step: with the run file and the data it
// gives the bits of all later steps.
type checkpoint struct {
	run      string // digest of run file and data
	state    State
	position uint64  // samples dealt
	cpu      float64 // seconds of processor time
	best     float64 // least validation loss, +Inf before the first
}

// digest covers everything in c.
func (c *checkpoint) digest() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %d %d %x %x\n", c.run, c.state.Steps, c.position, math.Float64bits(c.cpu), math.Float64bits(c.best))
	for _, v := range [][]float32{c.state.Params, c.state.Buffers, c.state.M1, c.state.M2} {
		hashFloats(h, v)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func hashFloats(h hash.Hash, x []float32) {
	buf := binary.LittleEndian.AppendUint64(nil, uint64(len(x)))
	for lo := 0; lo < len(x); lo += 4096 {
		for _, f := range x[lo:min(lo+4096, len(x))] {
			buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(f))
		}
		h.Write(buf)
		buf = buf[:0]
	}
}

// save replaces the checkpoint of dir: the old one or the new one is there, whole,
// at every moment.
func (c *checkpoint) save(dir string) error {
	flat := func(name string, x []float32) weights.Tensor {
		return weights.Tensor{Name: name, Shape: []int{len(x)}, Data: x}
	}
	return weights.ReplaceFile(filepath.Join(dir, CheckpointFile), func(w io.Writer) error {
		return weights.Write(w, []weights.Tensor{flat("params", c.state.Params), flat("buffers", c.state.Buffers), flat("m1", c.state.M1), flat("m2", c.state.M2)},
			map[string]string{"hived.checkpoint": "1", "run": c.run, "steps": strconv.FormatUint(c.state.Steps, 10), "position": strconv.FormatUint(c.position, 10),
				"cpu": strconv.FormatFloat(c.cpu, 'g', -1, 64), "best": strconv.FormatFloat(c.best, 'g', -1, 64), "digest": c.digest()})
	})
}

// loadCheckpoint reads the checkpoint of dir; without one it returns nil.
func loadCheckpoint(dir string) (*checkpoint, error) {
	path := filepath.Join(dir, CheckpointFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	f, err := weights.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.Meta["hived.checkpoint"] != "1" {
		return nil, fmt.Errorf("%s is no checkpoint of this version: %w", path, weights.ErrFile)
	}
	c := &checkpoint{run: f.Meta["run"]}
	var errs [8]error
	c.state.Steps, errs[0] = strconv.ParseUint(f.Meta["steps"], 10, 64)
	c.position, errs[1] = strconv.ParseUint(f.Meta["position"], 10, 64)
	c.cpu, errs[2] = strconv.ParseFloat(f.Meta["cpu"], 64)
	c.best, errs[3] = strconv.ParseFloat(f.Meta["best"], 64)
	for i, v := range []struct {
		name string
		dst  *[]float32
	}{{"params", &c.state.Params}, {"buffers", &c.state.Buffers}, {"m1", &c.state.M1}, {"m2", &c.state.M2}} {
		*v.dst, errs[4+i] = f.Float32(v.name)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, err, weights.ErrFile)
	}
	if d := c.digest(); d != f.Meta["digest"] {
		return nil, fmt.Errorf("%s has digest %s, it says %s: the disk changed it; delete it to start anew: %w", path, d, f.Meta["digest"], weights.ErrFile)
	}
	return c, nil
}

// sweep deletes what interrupted writes left in dir.
func sweep(dir string) error {
	var errs []error
	for _, name := range []string{CheckpointFile, weights.ModelFile, bestFile, CurveFile, data.CalibrationFile} {
		left, err := filepath.Glob(filepath.Join(dir, "."+name+"[0-9]*"))
		errs = append(errs, err)
		for _, f := range left {
			errs = append(errs, os.Remove(f))
		}
	}
	return errors.Join(errs...)
}
