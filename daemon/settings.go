package daemon

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/apiary-net/hived/daemon/exit"
)

// DecodeConfig reads a TOML file over c. An unknown key is an error that names
// the line and the key that was probably meant.
func DecodeConfig(path string, b []byte, c *Config) error { return exit.DecodeFile(path, b, c) }

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
			return exit.Fail(exit.Config, err, "environment %s", name)
		}
	}
	return nil
}

func setKey(c *Config, key, value string) error {
	f, ok := fieldOf(reflect.ValueOf(c).Elem(), key)
	if !ok {
		return fmt.Errorf("unknown key; did you mean %s%s?", envPrefix, strings.ToUpper(strings.ReplaceAll(exit.Guess(key, ConfigKeys()), ".", "__")))
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
func ConfigKeys() []string { return exit.Keys(reflect.TypeFor[Config](), "") }
