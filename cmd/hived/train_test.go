package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apiary-net/hived/daemon/exit"
	"github.com/apiary-net/hived/train"
	"github.com/apiary-net/hived/train/data"
	"github.com/apiary-net/hived/train/nets"
	"github.com/apiary-net/hived/train/weights"
)

// runFile writes a text and a run file that trains on it, and returns its path.
func runFile(t *testing.T, steps int) string {
	t.Helper()
	dir := t.TempDir()
	r := rand.New(rand.NewSource(1))
	var b strings.Builder
	for b.Len() < 20_000 {
		fmt.Fprintf(&b, "%d bees left hive %d. ", r.Intn(90), r.Intn(9))
	}
	file := filepath.Join(dir, "run.toml")
	text := fmt.Sprintf(`schema = 1
name = "bees"
steps = %d
threads = 1
[data]
format = "text"
path = "bees.txt"
tail = 0.2
context = 16
[model]
name = "gpt"
layers = 1
dim = 16
heads = 2
dropout = 100
[optimizer]
lr = 3e-3
batch = 4
warmup = 5
clip = 1
[eval]
every = 40
samples = 20
[output]
every = 10
log = 5
`, steps)
	for name, s := range map[string]string{file: text, filepath.Join(dir, "bees.txt"): b.String()} {
		if err := os.WriteFile(name, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

// TestTrainSurvivesKills kills a training with SIGKILL at random moments until it is
// done; the model has the bytes of one that nobody killed.
func TestTrainSurvivesKills(t *testing.T) {
	n := 1000
	if testing.Short() {
		n = 200
	}
	file := runFile(t, n)
	dir := filepath.Dir(file)
	began := time.Now()
	if r := hived(t, nil, "train", file, "--out", filepath.Join(dir, "whole")); r.code != 0 || !strings.Contains(r.out, "valid loss") {
		t.Fatalf("%+v", r)
	}
	took := time.Since(began)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewSource(time.Now().UnixNano()))
	kills := 0
	for done := false; !done; {
		if kills > 500 {
			t.Fatal("500 kills and no end")
		}
		ctx, cancel := context.WithTimeout(context.Background(), took/20+time.Duration(r.Int63n(int64(took)/5)))
		cmd := exec.CommandContext(ctx, exe, "train", file, "--out", filepath.Join(dir, "killed"))
		cmd.Env = append(os.Environ(), childEnv+"=child")
		out, err := cmd.CombinedOutput()
		done = err == nil
		if !done && ctx.Err() == nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if !done {
			kills++
		}
		cancel()
	}
	t.Logf("%d kills", kills)
	a, err := os.ReadFile(filepath.Join(dir, "whole", weights.ModelFile))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "killed", weights.ModelFile))
	if err != nil || !bytes.Equal(a, b) {
		t.Errorf("%d and %d bytes, equal: %v, %v", len(a), len(b), bytes.Equal(a, b), err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "killed", ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestTrainJSON checks the report and that another run is refused.
func TestTrainJSON(t *testing.T) {
	file := runFile(t, 20)
	r := hived(t, nil, "train", file, "--json", "--seed", "3", "--set", "eval.samples=10")
	var rep trainReport
	if err := json.Unmarshal([]byte(r.out), &rep); err != nil || r.code != 0 {
		t.Fatalf("%+v: %v", r, err)
	}
	if rep.Schema != "hived.train/v1" || rep.Model != "gpt" || rep.Steps != 20 || rep.Split != "valid" || rep.Accuracy == nil || !(rep.Loss > 1 && rep.Loss < 6) {
		t.Errorf("%+v", rep)
	}
	if r := hived(t, nil, "train", file, "--seed", "4"); r.code != int(exit.Config) || !strings.Contains(r.err, "--fresh") {
		t.Errorf("another seed in the same folder: %+v", r)
	}
	if r := hived(t, nil, "train", file, "--seed", "4", "--fresh"); r.code != 0 {
		t.Errorf("fresh: %+v", r)
	}
	if r := hived(t, nil, "train", file, "--set", "max_bytes=1000", "--fresh"); r.code != int(exit.Resource) || !strings.Contains(r.err, "1000 allowed") {
		t.Errorf("too little memory: %+v", r)
	}
}

// TestRunFileTypos changes one letter in each key: the error names the line and
// the key that was meant, in at least 95 of 100 cases.
func TestRunFileTypos(t *testing.T) {
	var lines []string
	table := ""
	var walk func(v reflect.Type, prefix string)
	walk = func(v reflect.Type, prefix string) {
		var later []reflect.StructField
		for i := range v.NumField() {
			f := v.Field(i)
			switch tag := f.Tag.Get("toml"); {
			case f.Anonymous:
				walk(f.Type, prefix)
			case f.Type.Kind() == reflect.Struct:
				later = append(later, f)
			default:
				lines = append(lines, prefix+"\x00"+tag)
			}
		}
		for _, f := range later {
			walk(f.Type, "["+f.Tag.Get("toml")+"]")
		}
	}
	walk(reflect.TypeFor[train.RunFile](), table)
	right, all := 0, 0
	for _, l := range lines {
		head, key, _ := strings.Cut(l, "\x00")
		for at := range key {
			wrong := key[:at] + "z" + key[at+1:]
			if wrong == key {
				continue
			}
			var r train.RunFile
			err := exit.DecodeFile("x.toml", []byte(head+"\n"+wrong+" = 1\n"), &r)
			want := key
			if head != "" {
				want = strings.Trim(head, "[]") + "." + key
			}
			if err == nil || !strings.Contains(err.Error(), "x.toml:2") || exit.CodeOf(err) != exit.Config {
				t.Errorf("%s %s: %v", head, wrong, err)
			}
			all++
			if err != nil && strings.Contains(err.Error(), fmt.Sprintf("did you mean %q", want)) {
				right++
			}
		}
	}
	if all < 500 || right*100 < all*95 {
		t.Errorf("%d of %d guesses are right", right, all)
	}
	t.Logf("%d of %d guesses are right", right, all)
}

// TestTrainRefusals types what is wrong.
func TestTrainRefusals(t *testing.T) {
	dir := t.TempDir()
	good, err := os.ReadFile(runFile(t, 5))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct{ old, new, want string }{
		{`path = "bees.txt"`, `path = "gone.txt"`, "gone.txt"},
		{`format = "text"`, `format = "txt"`, "want csv"},
		{`schema = 1`, `schema = 2`, "schema is 2"},
		{`heads = 2`, `heads = 3`, "multiple of heads"},
		{`layers = 1`, "layers = 1\ndepth = 8", `no argument "depth"`},
		{`steps = 5`, "steps = 5\nepochs = 2.0", "give one"},
		{`lr = 3e-3`, `lr = "fast"`, "run.toml:17"},
		{`batch = 4`, "batch = 4\nscale = \"cube\"", "linear or sqrt"},
	} {
		sub := filepath.Join(dir, fmt.Sprint(i))
		if err := os.MkdirAll(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(sub, "run.toml")
		for name, b := range map[string]string{file: strings.Replace(string(good), c.old, c.new, 1), filepath.Join(sub, "bees.txt"): strings.Repeat("a bee. ", 500)} {
			if err := os.WriteFile(name, []byte(b), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r := hived(t, nil, "train", file)
		if r.code == 0 || r.out != "" || !strings.Contains(r.err, c.want) {
			t.Errorf("%q: %+v", c.new, r)
		}
	}
	for _, args := range [][]string{{"train", filepath.Join(dir, "no.toml")}, {"train", "--task", "birds"}, {"train", "a", "b"}, {"train", "--set", "x"}} {
		if r := hived(t, nil, args...); r.code == 0 || r.out != "" || r.err == "" {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// TestGenerate continues a text with what `hived train` left, in its own form and
// in Hugging Face's: the same tokens.
func TestGenerate(t *testing.T) {
	file := runFile(t, 40)
	dir := filepath.Dir(file)
	if r := hived(t, nil, "train", file, "--out", filepath.Join(dir, "run")); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	if r := hived(t, nil, "model", "hf", filepath.Join(dir, "run"), filepath.Join(dir, "hf")); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	var got [3]generated
	for i, args := range [][]string{{"run", "--temperature", "0"}, {"hf", "--temperature", "0"}, {"run", "--temperature", "1", "--seed", "4"}} {
		args = append([]string{"generate", "--json", "-p", "bees", "-n", "9"}, append([]string{filepath.Join(dir, args[0])}, args[1:]...)...)
		r := hived(t, nil, args...)
		if err := json.Unmarshal([]byte(r.out), &got[i]); err != nil || r.code != 0 || len(got[i].IDs) != 13 || !strings.HasPrefix(got[i].Text, "bees") {
			t.Fatalf("%+v: %v", r, err)
		}
	}
	if !slices.Equal(got[0].IDs, got[1].IDs) || slices.Equal(got[0].IDs, got[2].IDs) {
		t.Errorf("%v, %v, %v", got[0].IDs, got[1].IDs, got[2].IDs)
	}
	if r := hived(t, nil, "generate", filepath.Join(dir, "run"), "-p", "bees", "-n", "500"); r.code != 0 || len(r.out) != 17 || !strings.HasPrefix(r.out, "bees") {
		t.Errorf("more than the context: %+v", r)
	}
	if r := hived(t, nil, "generate", filepath.Join(dir, "run"), "--ids", "1, 2", "-n", "1"); r.code != 0 || strings.Count(r.out, ",") != 2 {
		t.Errorf("by numbers: %+v", r)
	}
	for _, args := range [][]string{{}, {"run"}, {"run", "-p", "x", "--ids", "1"}, {"run", "--ids", "256"}, {"run", "-p", "a text that is too long"}, {"gone", "-p", "x"}, {"run", "-p", "x", "-n", "0"}} {
		if len(args) > 0 {
			args[0] = filepath.Join(dir, args[0])
		}
		if r := hived(t, nil, append([]string{"generate"}, args...)...); r.code == 0 || r.out != "" || r.err == "" {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// TestExamples decodes every run file of the documentation, checks its model, and
// that what docs/train.md says of keys is true.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "docs", "examples", "*.toml"))
	if err != nil || len(files) < 6 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var r train.RunFile
		if err := exit.DecodeFile(f, b, &r); err != nil {
			t.Error(err)
		}
		if err := r.Data.Validate(); err != nil {
			t.Errorf("%s: %v", f, err)
		}
		if r.Schema != 1 || (r.Steps > 0) == (r.Epochs > 0) || !slices.Contains(nets.Names(), r.Model.Name) {
			t.Errorf("%s: %+v", f, r)
		}
	}
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "train.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range nets.Names() {
		if !strings.Contains(string(guide), "`"+m+"`") {
			t.Errorf("docs/train.md does not name the model %s", m)
		}
	}
	for _, f := range data.Formats() {
		if !strings.Contains(string(guide), "`"+f+"`") {
			t.Errorf("docs/train.md does not name the format %s", f)
		}
	}
}
