package data

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/apiary-net/hived/train/weights"
	"github.com/apiary-net/hived/wire"
)

// Limits of a table.
const (
	maxTable   = 512 << 20
	maxColumns = 4096
)

// table is a CSV file as text, its header apart.
type table struct {
	path   string
	header []string
	comma  rune
	rows   [][]string
	lines  []int // line of each row
	odd    int   // rows with another number of cells than the header
	again  int   // repeated headers
}

// readTable reads a CSV file: comma, semicolon or tab by the header, a byte order
// mark or none, quoted cells. Rows of another length than the header's are an
// error, or left out and counted where lenient.
func readTable(path string, lenient bool) (*table, error) {
	b, err := weights.ReadBounded(path, maxTable)
	if err != nil {
		return nil, err
	}
	t, err := parseTable(b, lenient)
	if err != nil {
		return nil, fmt.Errorf("read table: %s: %w: %w", path, err, weights.ErrFile)
	}
	t.path = path
	return t, nil
}

func parseTable(b []byte, lenient bool) (*table, error) {
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	first, _, _ := bytes.Cut(b, []byte("\n"))
	t := &table{comma: ','}
	for _, c := range ";\t" {
		if bytes.ContainsRune(first, c) && bytes.Count(first, []byte(string(c))) > bytes.Count(first, []byte(string(t.comma))) {
			t.comma = c
		}
	}
	r := csv.NewReader(bytes.NewReader(b))
	r.Comma, r.FieldsPerRecord = t.comma, -1
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		line, _ := r.FieldPos(0)
		switch {
		case t.header == nil:
			if len(row) > maxColumns {
				return nil, fmt.Errorf("%d columns, limit %d", len(row), maxColumns)
			}
			t.name(row, line)
		case len(row) != len(t.header) && !lenient:
			return nil, fmt.Errorf("line %d has %d cells, the header %d", line, len(row), len(t.header))
		case len(row) != len(t.header):
			t.odd++
		case slices.Equal(row, t.header):
			t.again++
		default:
			t.rows, t.lines = append(t.rows, row), append(t.lines, line)
		}
	}
	if len(t.rows) == 0 {
		return nil, fmt.Errorf("%d columns and no row", len(t.header))
	}
	for i, h := range t.header {
		if slices.Index(t.header, h) != i {
			return nil, fmt.Errorf("column %q is there twice", h)
		}
	}
	return t, nil
}

// name takes the columns' names from the first row; one that holds only numbers is
// no header, and the columns are called 1, 2 and so on.
func (t *table) name(row []string, line int) {
	numbers := true
	for _, h := range row {
		t.header = append(t.header, strings.TrimSpace(h))
		_, missing, ok := t.number(h)
		numbers = numbers && ok && !missing
	}
	if !numbers {
		return
	}
	for i := range t.header {
		t.header[i] = strconv.Itoa(i + 1)
	}
	t.rows, t.lines = append(t.rows, row), append(t.lines, line)
}

// column returns the index of a column.
func (t *table) column(name string) (int, error) {
	if i := slices.Index(t.header, name); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("%s has no column %q, it has %s: %w", t.path, name, strings.Join(t.header, ", "), weights.ErrFile)
}

// missingCells are written where there is no value.
var missingCells = []string{"", "-", "na", "n/a", "nan", "null", "none", "nil", "?", "--"}

// number reads a cell: missing is true for an empty one, ok false for text. Commas
// are thousands where commas do not separate cells and a dot is the point, else the
// decimal point.
func (t *table) number(s string) (x float32, missing, ok bool) {
	s = strings.TrimSpace(s)
	if slices.Contains(missingCells, strings.ToLower(s)) {
		return Absent, true, true
	}
	if strings.Contains(s, ",") {
		if t.comma != ',' && strings.Count(s, ",") == 1 && !strings.Contains(s, ".") {
			s = strings.Replace(s, ",", ".", 1)
		} else if thousands.MatchString(s) {
			s = strings.ReplaceAll(s, ",", "")
		}
	}
	f, err := strconv.ParseFloat(s, 32)
	return float32(f), false, err == nil && f-f == 0
}

var thousands = regexp.MustCompile(`^[-+]?\d{1,3}(,\d{3})+(\.\d*)?$`)

// unit turns a column into degrees Celsius where its name says another unit, as in
// "temp (°F)" or "temperature_f".
func unit(header string) func(float32) float32 {
	h := strings.ToLower(header)
	switch {
	case strings.Contains(h, "(°f)"), strings.Contains(h, "(f)"), strings.HasPrefix(h, "temp") && strings.HasSuffix(h, "_f"), strings.Contains(h, "fahrenheit"):
		return func(x float32) float32 { return float32((x-32)*5) / 9 }
	case strings.Contains(h, "(k)"), strings.Contains(h, "kelvin"):
		return func(x float32) float32 { return x - 273.15 }
	}
	return func(x float32) float32 { return x }
}

// numbers reads a column. At most a tenth of its cells may be codes, which count as
// missing.
func (t *table) numbers(name string) ([]float32, error) {
	c, err := t.column(name)
	if err != nil {
		return nil, err
	}
	out, have, bad, firstBad := make([]float32, len(t.rows)), 0, 0, -1
	convert := unit(name)
	for i, row := range t.rows {
		x, missing, ok := t.number(row[c])
		switch {
		case !ok:
			if out[i] = Absent; firstBad < 0 {
				firstBad = i
			}
			bad++
		case missing:
			out[i] = Absent
		default:
			out[i] = convert(x)
			have++
		}
	}
	if have == 0 || bad*10 > have+bad {
		if bad > 0 {
			return nil, fmt.Errorf("%s:%d: column %q: %q is no number; %d of %d cells are none, limit a tenth: %w", t.path, t.lines[firstBad], name, t.rows[firstBad][c], bad, len(t.rows), weights.ErrFile)
		}
		return nil, fmt.Errorf("%s: column %q has no value in %d rows: %w", t.path, name, len(t.rows), weights.ErrFile)
	}
	return out, nil
}

// openTable reads a CSV file of samples: numbers as inputs and one column of classes.
func openTable(d Spec) (Set, error) {
	t, err := readTable(d.Path, false)
	if err != nil {
		return nil, err
	}
	label, err := t.column(named(d.Label, "label"))
	if err != nil {
		return nil, err
	}
	groups, err := newGrouper(t, d)
	if err != nil {
		return nil, err
	}
	columns, values, err := t.inputs(d, label, groups.column)
	if err != nil {
		return nil, err
	}
	sp, err := newSplitter(d.SplitSpec)
	if err != nil {
		return nil, err
	}
	l := newLabelled("csv", Form{Kind: "table", Dims: []int{len(columns)}})
	if err := l.room(len(t.rows), 4); err != nil {
		return nil, fmt.Errorf("open csv: %s: %w", d.Path, err)
	}
	var names []string
	for i, row := range t.rows {
		g, ok, err := groups.of(i)
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(row[label]) == "" {
			return nil, fmt.Errorf("%s:%d: the label is empty: %w", t.path, t.lines[i], weights.ErrFile)
		}
		digest := wire.Sum([]byte(strings.Join(row, "\x00")))
		split := ""
		if ok {
			split = sp.of("", g, digest)
		}
		if split == "" {
			continue
		}
		l.splits[split] = append(l.splits[split], len(names))
		names, l.digests = append(names, row[label]), append(l.digests, digest)
		for _, v := range values {
			l.values = append(l.values, v[i])
		}
	}
	if groups.missing*2 > len(t.rows) {
		return nil, fmt.Errorf("open csv: %d of %d rows have no group in %s: %w", groups.missing, len(t.rows), d.Labels, weights.ErrFile)
	}
	if d.Noise > 0 {
		l.augment = func(x []float32, key uint64) { addNoise(x, float32(d.Noise), key) }
	}
	return l.finish(names, sp.copies)
}

// grouper finds the group of rows.
type grouper struct {
	t       *table
	column  int // -1: no groups
	pattern *regexp.Regexp
	look    map[string]string
	missing int // rows that the labels file lacks
}

func newGrouper(t *table, d Spec) (*grouper, error) {
	g := &grouper{t: t, column: -1}
	var err error
	if d.Group != "" {
		if g.column, err = t.column(d.Group); err != nil {
			return nil, err
		}
	}
	if d.GroupPattern != "" {
		if g.pattern, err = regexp.Compile(d.GroupPattern); err != nil || g.pattern.NumSubexp() != 1 || g.column < 0 {
			return nil, fmt.Errorf("data group_pattern %q: want a regular expression with one group, and the column group (%v)", d.GroupPattern, err)
		}
	}
	g.look, err = lookupGroups(d)
	return g, err
}

// of returns the group of row i; ok is false for one that the labels file lacks.
func (g *grouper) of(i int) (group string, ok bool, err error) {
	if g.column < 0 {
		return "", true, nil
	}
	group = g.t.rows[i][g.column]
	if g.pattern != nil {
		m := g.pattern.FindStringSubmatch(group)
		if m == nil {
			return "", false, fmt.Errorf("%s:%d: group_pattern does not match %q: %w", g.t.path, g.t.lines[i], group, weights.ErrFile)
		}
		group = m[1]
	}
	if g.look == nil {
		return group, true, nil
	}
	if group, ok = g.look[group]; !ok {
		g.missing++
	}
	return group, ok, nil
}

// lookupGroups reads the groups of rows from the labels file, by file name without
// its ending; nil without one. Rows that it lacks are left out.
func lookupGroups(d Spec) (map[string]string, error) {
	if d.GroupFrom == "" {
		return nil, nil
	}
	t, err := readTable(d.Labels, false)
	if err != nil {
		return nil, err
	}
	file, err1 := t.column(named(d.File, "file"))
	group, err2 := t.column(d.GroupFrom)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, row := range t.rows {
		out[strings.TrimSuffix(row[file], path.Ext(row[file]))] = row[group]
	}
	return out, nil
}

// inputs returns the columns that are samples' values.
func (t *table) inputs(d Spec, not ...int) (names []string, values [][]float32, err error) {
	for i, h := range t.header {
		if len(d.Columns) > 0 && !slices.Contains(d.Columns, h) || slices.Contains(d.Drop, h) || slices.Contains(not, i) {
			continue
		}
		v, err := t.numbers(h)
		if err != nil && len(d.Columns) == 0 {
			continue // text, or empty
		}
		if err != nil {
			return nil, nil, err
		}
		names, values = append(names, h), append(values, v)
	}
	for _, c := range append(slices.Clone(d.Columns), d.Drop...) {
		if _, err := t.column(c); err != nil {
			return nil, nil, err
		}
	}
	if len(names) == 0 {
		return nil, nil, fmt.Errorf("%s has no column of numbers besides the label: %w", t.path, weights.ErrFile)
	}
	return names, values, nil
}

// addNoise adds normal noise that the key chooses.
func addNoise(x []float32, deviation float32, key uint64) {
	for i := range x {
		s := int64(0)
		for j := range uint64(3) {
			r := Mix(key + uint64(i)*3 + j)
			s += int64(r&0xFFFF) + int64(r>>16&0xFFFF) + int64(r>>32&0xFFFF) + int64(r>>48)
		}
		x[i] += float32(float32(2*s-12*65535) / 131072 * deviation)
	}
}
