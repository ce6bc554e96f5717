package netsim

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/wire"
)

// Files of an output directory.
const (
	EventsFile   = "events.jsonl"
	RoundsFile   = "rounds.csv"
	ResultFile   = "result.json"
	ScenarioFile = "scenario.toml"
	ReportFile   = "report.html"
	// ViolationFile is there when a checker found something.
	ViolationFile = "violation.json"
)

// maxEvent bounds a line of an events file.
const maxEvent = 1 << 20

// ReadEvents calls f for each event of a file.
func ReadEvents(path string, f func(Event) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	sc := bufio.NewScanner(file)
	sc.Buffer(make([]byte, 64<<10), maxEvent)
	for line := 1; sc.Scan(); line++ {
		var e Event
		dec := json.NewDecoder(bytes.NewReader(sc.Bytes()))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&e); err != nil {
			return fmt.Errorf("%s:%d: %w", path, line, err)
		}
		if err := f(e); err != nil {
			return err
		}
	}
	return sc.Err()
}

// WriteRounds writes one CSV line for each decided record of an events file.
func WriteRounds(events string, w io.Writer) error {
	out := csv.NewWriter(w)
	errs := out.Write([]string{"round", "virtual_ms", "took_ms", "counted", "lost", "loss", "control_bytes", "payload_bytes"})
	err := ReadEvents(events, func(e Event) error {
		if e.Kind != "decided" {
			return nil
		}
		return out.Write([]string{strconv.FormatUint(e.Round, 10), strconv.FormatInt(e.Ms, 10), strconv.FormatInt(e.TookMs, 10), strconv.Itoa(len(e.Counted)),
			strconv.Itoa(len(e.Lost)), strconv.FormatFloat(e.Loss, 'g', -1, 64), strconv.FormatUint(e.Control, 10), strconv.FormatUint(e.Payload, 10)})
	})
	out.Flush()
	return errors.Join(errs, err, out.Error())
}

// WriteResult writes the result, and what is derived from the events, beside an
// events file that is complete.
func WriteResult(dir string, r *Result) error {
	f, err := os.Create(filepath.Join(dir, RoundsFile))
	if err != nil {
		return err
	}
	err = WriteRounds(filepath.Join(dir, EventsFile), f)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := WriteReport(dir, r); err != nil {
		return err
	}
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	// Last: that it exists says that the run is complete.
	return os.WriteFile(filepath.Join(dir, ResultFile), append(b, '\n'), 0o644)
}

// ReadResult reads the result in an output directory.
func ReadResult(dir string) (*Result, error) {
	b, err := os.ReadFile(filepath.Join(dir, ResultFile))
	if err != nil {
		return nil, err
	}
	var r Result
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, ResultFile), err)
	}
	if r.Schema != "hived.netsim/v1" {
		return nil, fmt.Errorf("%s: schema %q, want hived.netsim/v1", filepath.Join(dir, ResultFile), r.Schema)
	}
	// Of the tiers only this one is a function of its seed, and has a digest.
	if r.Digest != "" {
		events, err := os.ReadFile(filepath.Join(dir, EventsFile))
		if err != nil {
			return nil, err
		}
		if wire.Sum(events).String() != r.Digest {
			return nil, exit.Fail(exit.Integrity, nil, "%s is not the file that %s was made with: run the scenario again", filepath.Join(dir, EventsFile), ResultFile)
		}
	}
	return &r, nil
}
