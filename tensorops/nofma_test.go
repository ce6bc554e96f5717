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

// TestNoFMA disassembles canonical code where the compiler may fuse a product and a
// sum by itself, and looks for fused instructions: Go for arm64 and for amd64 with
// GOAMD64=v3, and the C kernels for AVX2 and AVX-512 that use none.
func TestNoFMA(t *testing.T) {
	if os.Getenv("HIVED_LONG") == "" {
		t.Skip("HIVED_LONG is not set: builds for other processors")
	}
	fused := regexp.MustCompile(`\b(FN?M(ADD|SUB)[SD]|VFN?M(ADD|SUB)\d+[PS][SD])\b`)
	line := regexp.MustCompile(`^\s+(\w+\.go):\d+\s`)
	for _, env := range [][]string{{"GOARCH=arm64"}, {"GOARCH=amd64", "GOAMD64=v3"}} {
		bin := filepath.Join(t.TempDir(), "merge.test")
		build := exec.Command("go", "test", "-c", "-o", bin, "./merge")
		build.Env = append(os.Environ(), append(env, "GOOS=linux", "CGO_ENABLED=0")...)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", env, err, out)
		}
		out, err := exec.Command("go", "tool", "objdump", "-s", "hived/tensorops", bin).Output()
		if err != nil {
			t.Fatal(err)
		}
		name, seen := "", 0
		for _, l := range strings.Split(string(out), "\n") {
			if strings.HasPrefix(l, "TEXT ") {
				name = strings.Fields(l)[1]
				seen++
			} else if m := line.FindStringSubmatch(l); m != nil && !strings.HasSuffix(m[1], "_test.go") && fused.MatchString(l) {
				t.Errorf("%v: %s fuses: %s", env, name, strings.TrimSpace(l))
			}
		}
		if seen < 50 {
			t.Errorf("%v: only %d functions found", env, seen)
		}
	}
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
