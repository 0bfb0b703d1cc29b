package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDockerfile: no engine is asked here, so at least the Dockerfile says the same as
// this program and go.mod.
func TestDockerfile(t *testing.T) {
	data, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	has := func(line string) {
		t.Helper()
		if !slices.Contains(strings.Split(text, "\n"), line) {
			t.Errorf("the Dockerfile has no line %q", line)
		}
	}
	mod, err := os.ReadFile(module + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	release := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)
	has("FROM --platform=$BUILDPLATFORM golang:" + string(release[1]) + "-bookworm AS source")
	has("USER " + nonRoot)
	labels := program{}.labels("", "")
	for _, name := range []string{"org.opencontainers.image.source", "org.opencontainers.image.licenses"} {
		has("LABEL " + name + `="` + labels[name] + `"`)
	}
	for _, name := range names() {
		has("FROM source AS build-" + name)
		has("RUN $IMAGES " + name)
		has("FROM base AS " + name)
		has("COPY --from=build-" + name + " /out/ /")
		has(`ENTRYPOINT ["/` + name + `"]`)
	}
	if targets := strings.Count(text, "ENTRYPOINT"); targets != len(names()) {
		t.Errorf("the Dockerfile has %d targets, want %d", targets, len(names()))
	}
}

// TestProgramsAreAll: a program that cmd has and this list lacks would have no image.
func TestProgramsAreAll(t *testing.T) {
	folders, err := os.ReadDir(module + "/cmd")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, folder := range folders {
		got = append(got, folder.Name())
	}
	want := names()
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("cmd has %q, the images %q", got, want)
	}
}
