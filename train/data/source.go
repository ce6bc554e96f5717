package data

import (
	"archive/zip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/apiary-net/hived/train/weights"
	"github.com/apiary-net/hived/wire"
)

// Limits of folders of files.
const (
	maxFiles    = 1 << 20
	maxFileSize = 64 << 20
)

// entry is a file of a source.
type entry struct {
	name string // slash-separated, below the root; a zip file counts as a folder
	open func() (io.ReadCloser, error)
}

// source is the files of a folder, a zip file, or a folder with zip files.
type source struct {
	files []entry // in order of their names
	zips  []*zip.ReadCloser
}

func (s *source) close() error {
	var err error
	for _, z := range s.zips {
		err = errors.Join(err, z.Close())
	}
	return err
}

// openSource lists the files whose names end in one of exts. The caller closes it,
// also after an error.
func openSource(root string, exts []string) (*source, error) {
	s := &source{}
	st, err := os.Stat(root)
	if err != nil {
		return s, fmt.Errorf("open data: %w: %w", err, weights.ErrFile)
	}
	if !st.IsDir() {
		if err := s.addZip(root, "", exts); err != nil {
			return s, err
		}
	} else if err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case strings.EqualFold(path.Ext(rel), ".zip"):
			return s.addZip(p, rel+"/", exts)
		case slices.Contains(exts, strings.ToLower(path.Ext(rel))):
			s.files = append(s.files, entry{rel, func() (io.ReadCloser, error) { return os.Open(p) }})
		}
		if len(s.files) > maxFiles {
			return fmt.Errorf("%s has more than %d files: %w", root, maxFiles, weights.ErrFile)
		}
		return nil
	}); err != nil {
		return s, fmt.Errorf("list data: %w: %w", err, weights.ErrFile)
	}
	if len(s.files) == 0 {
		return s, fmt.Errorf("list data: no file under %s ends in %s: %w", root, strings.Join(exts, ", "), weights.ErrFile)
	}
	slices.SortFunc(s.files, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return s, nil
}

// addZip lists a zip file, which stays open.
func (s *source) addZip(file, prefix string, exts []string) error {
	z, err := zip.OpenReader(file)
	if err != nil {
		return fmt.Errorf("open data: %s: %w: %w", file, err, weights.ErrFile)
	}
	s.zips = append(s.zips, z)
	if len(z.File) > maxFiles {
		return fmt.Errorf("open data: %s has %d files, limit %d: %w", file, len(z.File), maxFiles, weights.ErrFile)
	}
	for _, f := range z.File {
		if !f.FileInfo().IsDir() && slices.Contains(exts, strings.ToLower(path.Ext(f.Name))) {
			s.files = append(s.files, entry{prefix + f.Name, f.Open})
		}
	}
	return nil
}

// read reads a file of at most maxFileSize bytes, whatever its header says.
func (e entry) read() ([]byte, error) {
	r, err := e.open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", e.name, err, weights.ErrFile)
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, maxFileSize+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w: %w", e.name, err, weights.ErrFile)
	case len(b) > maxFileSize:
		return nil, fmt.Errorf("%s: more than %d bytes: %w", e.name, maxFileSize, weights.ErrFile)
	case len(b) == 0:
		return nil, fmt.Errorf("%s: the file is empty: %w", e.name, weights.ErrFile)
	}
	return b, nil
}

// tag is what is known of a file besides its content.
type tag struct{ label, group string }

// tagger finds the class and the group of files.
type tagger struct {
	spec         Spec
	rows         map[string]tag // by the file's name, of a labels file
	label, group *regexp.Regexp
}

func newTagger(d Spec) (*tagger, error) {
	t := &tagger{spec: d}
	for _, p := range []struct {
		key, text string
		to        **regexp.Regexp
	}{{"label_pattern", d.LabelPattern, &t.label}, {"group_pattern", d.GroupPattern, &t.group}} {
		if p.text == "" {
			continue
		}
		re, err := regexp.Compile(p.text)
		if err != nil || re.NumSubexp() != 1 {
			return nil, fmt.Errorf("data %s %q: want a regular expression with one group (%v)", p.key, p.text, err)
		}
		*p.to = re
	}
	if d.Labels == "" {
		return t, nil
	}
	b, err := weights.ReadBounded(d.Labels, maxFileSize)
	if err != nil {
		return nil, err
	}
	return t, t.readRows(b)
}

func named(given, def string) string {
	if given == "" {
		return def
	}
	return given
}

// readRows reads the labels file: columns file, label and, where asked, group.
func (t *tagger) readRows(b []byte) error {
	r := csv.NewReader(strings.NewReader(strings.TrimPrefix(string(b), "\xef\xbb\xbf")))
	rows, err := r.ReadAll()
	if err != nil || len(rows) == 0 {
		return fmt.Errorf("read labels: %s: %d rows: %w: %w", t.spec.Labels, len(rows), err, weights.ErrFile)
	}
	at := func(col string) (int, error) {
		if col == "" {
			return -1, nil
		}
		if i := slices.Index(rows[0], col); i >= 0 {
			return i, nil
		}
		return 0, fmt.Errorf("read labels: %s has no column %q, it has %s: %w", t.spec.Labels, col, strings.Join(rows[0], ", "), weights.ErrFile)
	}
	file, err1 := at(named(t.spec.File, "file"))
	label, err2 := at(named(t.spec.Label, "label"))
	group, err3 := at(t.spec.Group)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	t.rows = map[string]tag{}
	for n, row := range rows[1:] {
		g := tag{label: row[label]}
		if group >= 0 {
			g.group = row[group]
		}
		name := path.Base(row[file])
		if old, ok := t.rows[name]; ok && old != g {
			return fmt.Errorf("read labels: %s:%d: %s was %q before and is %q now: %w", t.spec.Labels, n+2, name, old.label, g.label, weights.ErrFile)
		}
		t.rows[name] = g
	}
	return nil
}

// of returns the tag of a file; ok is false for one that the labels leave out.
func (t *tagger) of(name string) (g tag, ok bool, err error) {
	base := path.Base(name)
	switch {
	case t.rows != nil:
		g, ok = t.rows[base]
		if !ok {
			return g, false, nil
		}
	case t.label != nil:
		m := t.label.FindStringSubmatch(base)
		if m == nil {
			return g, false, fmt.Errorf("%s: label_pattern does not match the name: %w", name, weights.ErrFile)
		}
		g.label = m[1]
	default:
		dir, _, found := strings.Cut(name, "/")
		if !found {
			return g, false, fmt.Errorf("%s lies in no folder that would name its class; give labels or label_pattern: %w", name, weights.ErrFile)
		}
		g.label = dir
	}
	if t.group != nil {
		m := t.group.FindStringSubmatch(base)
		if m == nil {
			return g, false, fmt.Errorf("%s: group_pattern does not match the name: %w", name, weights.ErrFile)
		}
		g.group = m[1]
	}
	if g.label == "" {
		return g, false, fmt.Errorf("%s has an empty label: %w", name, weights.ErrFile)
	}
	return g, true, nil
}

// contentDigest names a sample by its bytes and its class.
func contentDigest(b []byte, label string) wire.Digest {
	d := wire.Sum(b)
	return wire.Sum(append(d[:], label...))
}
