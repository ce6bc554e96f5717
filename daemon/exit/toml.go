package exit

import (
	"bytes"
	"errors"
	"reflect"
	"strconv"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/pelletier/go-toml/v2"
)

// DecodeFile reads a TOML file over dst, a pointer to a struct with toml tags. An
// unknown key is an error that names the line and the key that was probably meant.
func DecodeFile(path string, b []byte, dst any) error {
	if bytes.HasPrefix(b, []byte("\xef\xbb\xbf")) {
		return Fail(Config, nil, "%s:1: the file starts with a byte order mark; save it without", path)
	}
	dec := toml.NewDecoder(bytes.NewReader(b)).DisallowUnknownFields()
	err := dec.Decode(dst)
	var strict *toml.StrictMissingError
	var at *toml.DecodeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &strict) && len(strict.Errors) > 0:
		e := strict.Errors[0]
		line, _ := e.Position()
		key := strings.Join(e.Key(), ".")
		return Fail(Config, nil, "%s:%d: unknown key %q; did you mean %q?", path, line, key, Guess(key, Keys(reflect.TypeOf(dst).Elem(), "")))
	case errors.As(err, &at):
		line, col := at.Position()
		return Fail(Config, nil, "%s:%d:%d: %s", path, line, col, at.Error())
	}
	return Fail(Config, err, "%s", path)
}

// DecodeSet puts one KEY=VALUE of a command line over dst, as a file would that
// holds it alone; the key's tables are parted by dots.
func DecodeSet(kv string, dst any) error {
	k, v, ok := strings.Cut(kv, "=")
	if !ok {
		return Fail(Usage, nil, "--set %q, want KEY=VALUE", kv)
	}
	return DecodeFile("--set "+k, []byte(k+" = "+tomlValue(strings.TrimSpace(v))), dst)
}

// tomlValue quotes what is neither number, truth value, list nor string.
func tomlValue(v string) string {
	if _, err := strconv.ParseFloat(v, 64); err == nil || v == "true" || v == "false" || strings.HasPrefix(v, "[") || strings.HasPrefix(v, "\"") {
		return v
	}
	return strconv.Quote(v)
}

// Keys returns the dotted keys of a struct with toml tags.
func Keys(t reflect.Type, prefix string) []string {
	var out []string
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("toml")
		switch {
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			out = append(out, Keys(f.Type, prefix)...)
		case name == "" || name == "-":
		case f.Type.Kind() == reflect.Struct:
			out = append(out, Keys(f.Type, prefix+name+".")...)
		default:
			out = append(out, prefix+name)
		}
	}
	return out
}

// Guess returns the key nearest to what was typed: its last part decides if it
// stands in another table.
func Guess(typed string, keys []string) string {
	best, least := "", 1<<30
	last := typed[strings.LastIndex(typed, ".")+1:]
	for _, k := range keys {
		d := min(levenshtein.ComputeDistance(typed, k), 1+levenshtein.ComputeDistance(last, k[strings.LastIndex(k, ".")+1:]))
		if d < least {
			best, least = k, d
		}
	}
	return best
}
