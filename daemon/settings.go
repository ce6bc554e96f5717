package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/pelletier/go-toml/v2"
)

// DecodeConfig reads a TOML file over c. An unknown key is an error that names
// the line and the key that was probably meant.
func DecodeConfig(path string, b []byte, c *Config) error { return DecodeFile(path, b, c) }

// DecodeFile does the same for any pointer to a struct with toml tags.
func DecodeFile(path string, b []byte, dst any) error {
	if bytes.HasPrefix(b, []byte("\xef\xbb\xbf")) {
		return Fail(ExitConfig, nil, "%s:1: the file starts with a byte order mark; save it without", path)
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
		return Fail(ExitConfig, nil, "%s:%d: unknown key %q; did you mean %q?", path, line, key, guess(key, keysOf(reflect.TypeOf(dst).Elem(), "")))
	case errors.As(err, &at):
		line, col := at.Position()
		return Fail(ExitConfig, nil, "%s:%d:%d: %s", path, line, col, at.Error())
	}
	return Fail(ExitConfig, err, "%s", path)
}

// DecodeSet puts one KEY=VALUE of a command line over dst, as a file would that
// holds it alone; the key's tables are parted by dots.
func DecodeSet(kv string, dst any) error {
	k, v, ok := strings.Cut(kv, "=")
	if !ok {
		return Fail(ExitUsage, nil, "--set %q, want KEY=VALUE", kv)
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

// EncodeConfig writes c with a comment for each key.
func EncodeConfig(c Config) ([]byte, error) { return toml.Marshal(c) }

const envPrefix = "HIVED_"

// Environment names that are not configuration keys.
var envOther = []string{"HIVED_DATA", "HIVED_REQUIRE", "HIVED_TEST_DATA", "HIVED_YARDSTICKS", "HIVED_ISA", "HIVED_LONG"}

// ApplyEnv sets keys from variables HIVED_SECTION__KEY.
func ApplyEnv(c *Config, environ []string) error {
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		rest, ok := strings.CutPrefix(name, envPrefix)
		if !ok || slices.Contains(envOther, name) {
			continue
		}
		key := strings.ToLower(strings.ReplaceAll(rest, "__", "."))
		if err := setKey(c, key, value); err != nil {
			return Fail(ExitConfig, err, "environment %s", name)
		}
	}
	return nil
}

func setKey(c *Config, key, value string) error {
	f, ok := fieldOf(reflect.ValueOf(c).Elem(), key)
	if !ok {
		return fmt.Errorf("unknown key; did you mean %s%s?", envPrefix, strings.ToUpper(strings.ReplaceAll(guess(key, ConfigKeys()), ".", "__")))
	}
	switch f.Kind() {
	case reflect.String:
		f.SetString(value)
	case reflect.Bool:
		b, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("%q is not true or false", value)
		}
		f.SetBool(b)
	case reflect.Int:
		n, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", value)
		}
		f.SetInt(int64(n))
	case reflect.Uint64:
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", value)
		}
		f.SetUint(n)
	default: // []string
		list := []string{}
		if value != "" {
			list = strings.Split(value, ",")
		}
		f.Set(reflect.ValueOf(list))
	}
	return nil
}

// fieldOf finds the field of a dotted key by its toml names.
func fieldOf(v reflect.Value, key string) (reflect.Value, bool) {
	head, rest, nested := strings.Cut(key, ".")
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("toml") != head {
			continue
		}
		f := v.Field(i)
		if !nested {
			return f, f.Kind() != reflect.Struct
		}
		if f.Kind() == reflect.Struct {
			return fieldOf(f, rest)
		}
	}
	return reflect.Value{}, false
}

// ConfigKeys returns every key, dotted.
func ConfigKeys() []string { return keysOf(reflect.TypeFor[Config](), "") }

func keysOf(t reflect.Type, prefix string) []string {
	var out []string
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("toml")
		switch {
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			out = append(out, keysOf(f.Type, prefix)...)
		case name == "" || name == "-":
		case f.Type.Kind() == reflect.Struct:
			out = append(out, keysOf(f.Type, prefix+name+".")...)
		default:
			out = append(out, prefix+name)
		}
	}
	return out
}

// guess returns the key nearest to what was typed: its last part decides if it
// stands in another table.
func guess(typed string, keys []string) string {
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
