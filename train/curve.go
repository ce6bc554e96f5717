package train

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/apiary-net/hived/train/weights"
)

// Point is one point of a learning curve.
type Point struct {
	Step     uint64
	Position uint64  // samples dealt
	Epoch    float64 // of the training split
	Loss     float64 // mean since the point before
	Rate     float64 // learning rate of the last step
	Valid    *Score  // where this point was evaluated
	CPU      float64 // seconds of processor time
	Seconds  float64 // since this start
}

const curveHeader = "step,position,epoch,loss,rate,valid_loss,valid_accuracy,valid_rmse,cpu_seconds,seconds\n"

// row is a line of the CSV file.
func (p Point) row() string {
	f := func(x float64) string { return strconv.FormatFloat(x, 'g', 8, 64) }
	valid := ",,"
	if s := p.Valid; s != nil {
		valid = f(s.Loss) + "," + f(s.Accuracy) + "," + f(s.RMSE)
	}
	return fmt.Sprintf("%d,%d,%s,%s,%s,%s,%s,%s\n", p.Step, p.Position, f(p.Epoch), f(p.Loss), f(p.Rate), valid, f(p.CPU), f(p.Seconds))
}

// curve keeps points as CSV and as events.
type curve struct {
	csv *os.File
	tf  *events
}

// openCurve opens the curve of a training that goes on behind step: later points,
// which a crash left, are cut off.
func openCurve(dir string, step uint64, now func() time.Time) (*curve, error) {
	path := filepath.Join(dir, CurveFile)
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("read curve: %w", err)
	}
	kept := keptRows(old, step)
	if err := weights.ReplaceFile(path, func(w io.Writer) error { _, err := io.WriteString(w, kept); return err }); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, fmt.Errorf("open curve: %w", err)
	}
	tf, err := openEvents(dir, now)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &curve{f, tf}, nil
}

// keptRows returns the header and the whole rows up to step.
func keptRows(old []byte, step uint64) string {
	var b strings.Builder
	b.WriteString(curveHeader)
	for i, line := range bytes.SplitAfter(old, []byte("\n")) {
		if i == 0 || !bytes.HasSuffix(line, []byte("\n")) {
			continue
		}
		first, _, _ := bytes.Cut(line, []byte(","))
		if n, err := strconv.ParseUint(string(first), 10, 64); err == nil && n <= step {
			b.Write(line)
		}
	}
	return b.String()
}

func (c *curve) add(p Point) error {
	if _, err := c.csv.WriteString(p.row()); err != nil {
		return fmt.Errorf("write curve: %w", err)
	}
	tags := []struct {
		name  string
		value float64
	}{{"loss/train", p.Loss}, {"rate", p.Rate}}
	if s := p.Valid; s != nil {
		tags = append(tags, struct {
			name  string
			value float64
		}{"loss/valid", s.Loss})
	}
	for _, t := range tags {
		if err := c.tf.scalar(p.Step, t.name, t.value); err != nil {
			return err
		}
	}
	return nil
}

// sync makes the points durable before a checkpoint says that they are there.
func (c *curve) sync() error {
	if err := c.csv.Sync(); err != nil {
		return fmt.Errorf("sync curve: %w", err)
	}
	return nil
}

func (c *curve) close() error {
	if err := c.tf.close(); err != nil {
		return err
	}
	return c.csv.Close()
}
