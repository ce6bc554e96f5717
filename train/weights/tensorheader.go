package weights

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// decodeTensorHeader reads the JSON object of a safetensors file token by token, so
// that a name given twice is seen and nothing nests deeper than it may.
func decodeTensorHeader(head []byte) (meta map[string]string, list []tensorEntry, err error) {
	if !utf8.Valid(head) {
		return nil, nil, fmt.Errorf("the header is not UTF-8")
	}
	d := headerReader{json.NewDecoder(bytes.NewReader(head))}
	d.UseNumber()
	if err := d.open('{'); err != nil {
		return nil, nil, fmt.Errorf("the header is no JSON object: %w", err)
	}
	seen := map[string]bool{}
	for d.More() {
		name, err := d.text()
		if err != nil {
			return nil, nil, fmt.Errorf("header: %w", err)
		}
		if seen[name] {
			return nil, nil, fmt.Errorf("tensor %q is given twice", name)
		}
		seen[name] = true
		if len(seen) > MaxTensors+1 {
			return nil, nil, fmt.Errorf("more than %d tensors", MaxTensors)
		}
		if name == "__metadata__" {
			if meta, err = d.texts(); err != nil {
				return nil, nil, fmt.Errorf("metadata: %w", err)
			}
			continue
		}
		if err := checkTensorName(name); err != nil {
			return nil, nil, err
		}
		e, err := d.entry()
		if err != nil {
			return nil, nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		e.name = name
		list = append(list, e)
	}
	if err := d.open('}'); err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	if rest := bytes.TrimRight(head[d.InputOffset():], " \x00"); len(rest) > 0 {
		return nil, nil, fmt.Errorf("header: %d bytes after its object", len(rest))
	}
	return meta, list, nil
}

// headerReader reads what a header may hold and nothing else.
type headerReader struct{ *json.Decoder }

// open reads one delimiter.
func (d headerReader) open(want rune) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	if t != json.Delim(want) {
		return fmt.Errorf("%v where %q is due", t, want)
	}
	return nil
}

func (d headerReader) text() (string, error) {
	t, err := d.Token()
	if err != nil {
		return "", err
	}
	s, ok := t.(string)
	if !ok {
		return "", fmt.Errorf("%v where a string is due", t)
	}
	return s, nil
}

func (d headerReader) texts() (map[string]string, error) {
	m := map[string]string{}
	if err := d.open('{'); err != nil {
		return nil, err
	}
	for d.More() {
		k, err := d.text()
		if err != nil {
			return nil, err
		}
		if _, ok := m[k]; ok {
			return nil, fmt.Errorf("key %q is given twice", k)
		}
		if m[k], err = d.text(); err != nil {
			return nil, err
		}
	}
	return m, d.open('}')
}

// numbers reads an array of at most limit whole numbers that are not negative.
func (d headerReader) numbers(limit int) ([]int64, error) {
	if err := d.open('['); err != nil {
		return nil, err
	}
	out := []int64{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		s, ok := t.(json.Number)
		if !ok {
			return nil, fmt.Errorf("%v where a number is due", t)
		}
		n, err := strconv.ParseInt(string(s), 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%s is no whole number from 0 to 2^63-1", s)
		}
		if out = append(out, n); len(out) > limit {
			return nil, fmt.Errorf("more than %d numbers", limit)
		}
	}
	return out, d.open(']')
}

// entry reads {"dtype", "shape", "data_offsets"} and checks one against the other.
func (d headerReader) entry() (tensorEntry, error) {
	var e tensorEntry
	var shape, offsets []int64
	if err := d.open('{'); err != nil {
		return e, err
	}
	for d.More() {
		k, err := d.text()
		if err != nil {
			return e, err
		}
		switch {
		case k == "dtype" && e.dtype == "":
			e.dtype, err = d.text()
		case k == "shape" && shape == nil:
			shape, err = d.numbers(8)
		case k == "data_offsets" && offsets == nil:
			offsets, err = d.numbers(2)
		default:
			return e, fmt.Errorf("key %q is unknown or given twice", k)
		}
		if err != nil {
			return e, fmt.Errorf("%s: %w", k, err)
		}
	}
	if err := d.open('}'); err != nil {
		return e, err
	}
	w, ok := tensorWidth[e.dtype]
	if !ok {
		return e, fmt.Errorf("type %q is unknown", e.dtype)
	}
	if shape == nil || len(offsets) != 2 || offsets[0] > offsets[1] {
		return e, fmt.Errorf("shape %v, range %v", shape, offsets)
	}
	n := w
	for _, s := range shape {
		if s > 0 && n > (1<<62)/s {
			return e, fmt.Errorf("shape %v has more elements than any file", shape)
		}
		n *= s
		e.shape = append(e.shape, int(s))
	}
	if n != offsets[1]-offsets[0] {
		return e, fmt.Errorf("shape %v of %s needs %d bytes, its range has %d", shape, e.dtype, n, offsets[1]-offsets[0])
	}
	e.begin, e.end = offsets[0], offsets[1]
	return e, nil
}
