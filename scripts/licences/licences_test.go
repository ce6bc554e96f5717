package main

import (
	"os"
	"strings"
	"testing"
)

func TestThirdPartyIsCurrent(t *testing.T) {
	want, err := page("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../THIRD_PARTY.md")
	if err != nil || string(got) != want {
		t.Errorf("THIRD_PARTY.md is not current (%v): go run ./scripts/licences > THIRD_PARTY.md", err)
	}
	if strings.Contains(want, "unknown") {
		t.Errorf("a licence is not known:\n%s", want)
	}
}

func TestClassify(t *testing.T) {
	for text, want := range map[string]string{
		"Permission is hereby\ngranted, free of charge, to any person": "MIT",
		"Apache License\n   Version 2.0, January 2004":                 "Apache-2.0",
		"all rights reserved": "",
	} {
		if got := strings.Join(classify(text), " "); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}
