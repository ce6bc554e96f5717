package nets

import (
	"reflect"
	"testing"
)

// TestRunFileHasEverySize checks that whatever a model takes can be said in a run file.
func TestRunFileHasEverySize(t *testing.T) {
	keys := map[string]bool{}
	spec := reflect.TypeFor[Spec]()
	for i := range spec.NumField() {
		keys[spec.Field(i).Tag.Get("toml")] = true
	}
	for name, f := range families {
		for _, s := range f.sizes {
			if !keys[s.key] {
				t.Errorf("%s: no key %q in a run file", name, s.key)
			}
		}
	}
}
