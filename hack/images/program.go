package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// program is one that has an image. Its source is cmd/NAME, its binary /NAME.
type program struct {
	name, image, title, description string
}

// programs are all of them. The Dockerfile beside this file has the same ones.
func programs() []program {
	return []program{
		{"operator", "ghostline-operator", "Ghostline operator", "Turns CompletionRoutes into proxies"},
		{"proxy", "ghostline-proxy", "Ghostline proxy", "Serves code completions between editors and model servers"},
		{"tokenissuer", "ghostline-tokenissuer", "Ghostline token issuer", "Turns an OAuth login into a completion token"},
		{"modelserver", "ghostline-modelserver", "Ghostline model server", "A stand-in for a model server, for trials and tests"},
		{"ghostline", "ghostline", "Ghostline command line", "Asks for completions, explains routes, makes load"},
	}
}

func names() []string {
	var all []string
	for _, p := range programs() {
		all = append(all, p.name)
	}
	return all
}

// choose returns the programs of these names, or all.
func choose(wanted []string) ([]program, error) {
	for _, name := range wanted {
		if !slices.Contains(names(), name) {
			return nil, fmt.Errorf("no program is called %q; they are %s", name, strings.Join(names(), ", "))
		}
	}
	return slices.DeleteFunc(programs(), func(p program) bool { return len(wanted) > 0 && !slices.Contains(wanted, p.name) }), nil
}

func parsePlatforms(list string) ([]v1.Platform, error) {
	var all []v1.Platform
	for one := range strings.SplitSeq(list, ",") {
		os, architecture, ok := strings.Cut(one, "/")
		if !ok || os != "linux" || architecture == "" || strings.Contains(architecture, "/") {
			return nil, fmt.Errorf("-platforms: %q is none that an image can be for; write linux/amd64 or linux/arm64", one)
		}
		all = append(all, v1.Platform{OS: os, Architecture: architecture})
	}
	return all, nil
}

// parseEpoch reads SOURCE_DATE_EPOCH (https://reproducible-builds.org/specs/source-date-epoch/);
// the zero time is that it is not set.
func parseEpoch(seconds string) (time.Time, error) {
	if seconds == "" {
		return time.Time{}, nil
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH is %q; it must be a number of seconds since 1970", seconds)
	}
	return time.Unix(n, 0).UTC(), nil
}
