package tensorops

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// canonical are the packages in which arithmetic of versions and records is done.
func canonical(t *testing.T) []string {
	out := []string{"tensorops/codec", "tensorops/merge", "tensorops/num"}
	err := filepath.WalkDir("../elastic", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() != "testdata" && d.Name() != "rulestest" { // which only tests use
			out = append(out, strings.TrimPrefix(filepath.ToSlash(path), "../"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestNoFMA disassembles canonical code where the compiler may fuse a product and a
// sum by itself, and looks for fused instructions: Go for arm64 and for amd64 with
// GOAMD64=v3. TestNoFMAKernels does so for C.
func TestNoFMA(t *testing.T) {
	if os.Getenv("HIVED_LONG") == "" {
		t.Skip("HIVED_LONG is not set: builds for other processors")
	}
	for _, env := range [][]string{{"GOARCH=arm64"}, {"GOARCH=amd64", "GOAMD64=v3"}} {
		for _, pkg := range canonical(t) {
			functions, fused, _ := disassemble(t, env, pkg)
			for _, f := range fused {
				t.Errorf("%v: %s", env, f)
			}
			if functions < 3 {
				t.Errorf("%v: only %d functions of %s found", env, functions, pkg)
			}
		}
		if _, _, inTests := disassemble(t, env, "tensorops"); inTests == 0 {
			t.Errorf("%v: %v is not fused: nothing would be found", env, mayFuse(2, 3, 4))
		}
	}
}

// mayFuse is what TestNoFMA must find.
//
//go:noinline
func mayFuse(x, y, z float64) float64 { return x*y + z }

var (
	fusedOp = regexp.MustCompile(`\bFN?M(ADD|SUB)[SD]\b`) // of arm64
	// Go's disassembler does not know the instructions of AVX. Those that fuse have a
	// VEX prefix of three bytes, the second opcode map and opcodes 96 to BF.
	fusedVEX = regexp.MustCompile(`^([0-9a-f]{2})*?c4[02468ace]2[0-9a-f]{2}[9ab][6-9a-f]`)
	fileLine = regexp.MustCompile(`^\s+(\w+\.go):\d+\s+0x[0-9a-f]+\s+([0-9a-f]+)\s`)
)

// disassemble builds a package's tests for another processor, and returns how many
// functions of the package itself it found, their fused instructions, and how many
// its tests have.
func disassemble(t *testing.T, env []string, pkg string) (functions int, fused []string, inTests int) {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "package.test")
	build := exec.Command("go", "test", "-c", "-o", bin, "../"+pkg)
	build.Env = append(os.Environ(), append(env, "GOOS=linux", "CGO_ENABLED=0")...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", env, err, out)
	}
	out, err := exec.Command("go", "tool", "objdump", "-s", "hived/"+pkg+`\.`, bin).Output()
	if err != nil {
		t.Fatal(err)
	}
	name := ""
	for _, l := range strings.Split(string(out), "\n") {
		if strings.HasPrefix(l, "TEXT ") {
			name = strings.Fields(l)[1]
			functions++
		} else if m := fileLine.FindStringSubmatch(l); m == nil || !fusedOp.MatchString(l) && !(slices.Contains(env, "GOARCH=amd64") && fusedVEX.MatchString(m[2])) {
			continue
		} else if strings.HasSuffix(m[1], "_test.go") {
			inTests++
		} else {
			fused = append(fused, name+" fuses: "+strings.TrimSpace(l))
		}
	}
	return functions, fused, inTests
}

// TestNoFMAKernels does so for the C kernels: these have no fused operation of
// their own, while the products beside them must be full of them.
func TestNoFMAKernels(t *testing.T) {
	if os.Getenv("HIVED_LONG") == "" {
		t.Skip("HIVED_LONG is not set: compiles the kernels again")
	}
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc to compile with")
	}
	if out, err := exec.Command(cc, "-dumpmachine").Output(); err != nil || !strings.HasPrefix(string(out), "x86_64") {
		t.Skip("gcc is not for x86-64")
	}
	plain := []string{"k_add", "k_relu_mask", "k_cols", "k_sumsq", "k_pool_fwd", "k_pool_bwd", "k_embed_fwd", "k_embed_bwd", "copy_rows", "panels_of_rows"}
	for _, file := range []string{"cpu/kern_avx2_amd64.c", "cpu/kern_avx512_amd64.c"} {
		out, err := exec.Command(cc, "-O3", "-fno-inline-functions", "-S", "-o", "-", file).Output()
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		name, found, fused := "", 0, 0
		for _, l := range strings.Split(string(out), "\n") {
			if f, ok := strings.CutSuffix(l, ":"); ok && !strings.HasPrefix(l, ".") && !strings.Contains(f, " ") {
				name, _, _ = strings.Cut(f, ".")
				if slices.Contains(plain, name) {
					found++
				}
			}
			if strings.Contains(l, "\tvfm") || strings.Contains(l, "\tvfnm") {
				fused++
				if slices.Contains(plain, name) {
					t.Errorf("%s: %s fuses: %s", file, name, l)
				}
			}
		}
		if found < len(plain)-2 || fused < 100 {
			t.Errorf("%s: %d of %d functions found, %d fused operations in all", file, found, len(plain), fused)
		}
	}
}
