package train

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"time"
)

// events writes scalars as TensorBoard reads them: records of a length, its
// checksum, an Event message and its checksum. Layout: tensorflow's
// core/lib/io/record_writer.h and core/util/event.proto.
type events struct {
	f   *os.File
	now func() time.Time
}

// openEvents starts a file of events in dir; each start of a run has its own.
func openEvents(dir string, now func() time.Time) (*events, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "host"
	}
	name := fmt.Sprintf("events.out.tfevents.%010d.%s.%d", now().Unix(), host, os.Getpid())
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open events: %w", err)
	}
	e := &events{f, now}
	return e, e.record(e.event(0, protoBytes(3, []byte("brain.Event:2"))))
}

// scalar writes one value.
func (e *events) scalar(step uint64, tag string, value float64) error {
	v := append(protoBytes(1, []byte(tag)), 2<<3|5) // Summary.Value: tag, simple_value
	v = binary.LittleEndian.AppendUint32(v, math.Float32bits(float32(value)))
	return e.record(e.event(step, protoBytes(5, protoBytes(1, v))))
}

// event is an Event: wall_time 1, step 2, then what.
func (e *events) event(step uint64, what []byte) []byte {
	b := binary.LittleEndian.AppendUint64([]byte{1<<3 | 1}, math.Float64bits(float64(e.now().UnixMilli())/1000))
	if step > 0 {
		b = binary.AppendUvarint(append(b, 2<<3), step)
	}
	return append(b, what...)
}

// protoBytes is a field of length-delimited wire type.
func protoBytes(field int, b []byte) []byte {
	return append(binary.AppendUvarint([]byte{byte(field<<3 | 2)}, uint64(len(b))), b...)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked is the checksum of a record, turned so that data that hold checksums do
// not check themselves.
func masked(b []byte) uint32 {
	c := crc32.Checksum(b, castagnoli)
	return (c>>15 | c<<17) + 0xA282EAD8
}

func (e *events) record(b []byte) error {
	r := binary.LittleEndian.AppendUint64(nil, uint64(len(b)))
	r = binary.LittleEndian.AppendUint32(r, masked(r))
	r = append(r, b...)
	r = binary.LittleEndian.AppendUint32(r, masked(b))
	if _, err := e.f.Write(r); err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	return nil
}

func (e *events) close() error { return e.f.Close() }
