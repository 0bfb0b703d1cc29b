package proxy

import (
	"fmt"
	"math"
	"strconv"
	"testing"

	"github.com/ghostline-dev/ghostline/internal/token"
	"github.com/ghostline-dev/ghostline/proxy/config"
)

// weighted is a model whose variants have the given weights: v0, v1, …
func weighted(salt string, weights ...int) *model {
	m := config.Model{Name: "ghost-code", Split: config.Split{By: config.SplitBySubject, Salt: salt}}
	for i, w := range weights {
		m.Variants = append(m.Variants, config.Variant{Name: fmt.Sprintf("v%d", i), Weight: w})
	}
	return testSnapshot(m).models["ghost-code"]
}

const manySubjects = 100_000

func subject(i int) string { return "user-" + strconv.Itoa(i) }

// within is true for a count of n draws of probability p that is no further off
// than five standard deviations. Subjects are the same in every run.
func within(count, n int, p float64) bool {
	return math.Abs(float64(count)-float64(n)*p) <= 5*math.Sqrt(float64(n)*p*(1-p))
}

func TestShares(t *testing.T) {
	for _, weights := range [][]int{{1}, {95, 5}, {0, 3, 1}, {1, 1, 1, 1}, {999_999, 1_000}} {
		t.Run(fmt.Sprint(weights), func(t *testing.T) {
			t.Parallel()
			m, counts, sum := weighted("2026-11", weights...), map[string]int{}, 0
			for i := range manySubjects {
				counts[m.choose(subject(i)).Name]++
			}
			for _, w := range weights {
				sum += w
			}
			for i, w := range weights {
				if n := counts[fmt.Sprintf("v%d", i)]; !within(n, manySubjects, float64(w)/float64(sum)) {
					t.Errorf("variant %d got %d of %d subjects", i, n, manySubjects)
				}
			}
		})
	}
}

func TestRaisingAWeightMovesOnlyToIt(t *testing.T) {
	before, after := weighted("s", 50, 30, 20), weighted("s", 50, 60, 20)
	moved := 0
	for i := range manySubjects {
		from, to := before.choose(subject(i)).Name, after.choose(subject(i)).Name
		if from == to {
			continue
		}
		moved++
		if to != "v1" {
			t.Fatalf("%s moved from %s to %s", subject(i), from, to)
		}
	}
	// From 30 of 100 to 60 of 130.
	if p := 60.0/130 - 30.0/100; !within(moved, manySubjects, p) {
		t.Errorf("%d subjects moved, want about %.0f", moved, p*manySubjects)
	}
}

func TestANewVariantOnlyTakes(t *testing.T) {
	before, after := weighted("s", 60, 40), weighted("s", 60, 40, 10)
	for i := range manySubjects {
		if from, to := before.choose(subject(i)).Name, after.choose(subject(i)).Name; from != to && to != "v2" {
			t.Fatalf("%s moved from %s to %s", subject(i), from, to)
		}
	}
}

// TestSaltsAreIndependent counts the subjects in the same arm of two
// experiments: as many as chance puts there.
func TestSaltsAreIndependent(t *testing.T) {
	one, two, both := weighted("2026-11", 80, 20), weighted("2026-12", 80, 20), 0
	for i := range manySubjects {
		if one.choose(subject(i)).Name == "v1" && two.choose(subject(i)).Name == "v1" {
			both++
		}
	}
	if !within(both, manySubjects, 0.2*0.2) {
		t.Errorf("%d of %d subjects are in both, want about %.0f", both, manySubjects, 0.04*manySubjects)
	}
}

// TestModelsAreIndependent is the same for two models of one salt.
func TestModelsAreIndependent(t *testing.T) {
	one, two, both := weighted("s", 50, 50), weighted("s", 50, 50), 0
	two.Name = "ghost-prose"
	for i := range manySubjects {
		if one.choose(subject(i)).Name == two.choose(subject(i)).Name {
			both++
		}
	}
	if !within(both, manySubjects, 0.5) {
		t.Errorf("%d of %d subjects have the same variant of both", both, manySubjects)
	}
}

func TestDrawKeepsPartsApart(t *testing.T) {
	a, b := weighted("ab", 1, 1), weighted("a", 1, 1)
	b.Name = "b" + b.Name
	if a.draw("v", "k") == b.draw("v", "k") {
		t.Error("salt and model run together")
	}
	if a.draw("vk", "") == a.draw("v", "k") {
		t.Error("variant and key run together")
	}
}

func TestPickVariant(t *testing.T) {
	bySubject, byRequest := weighted("s", 50, 50), weighted("s", 50, 50)
	byRequest.Split.By = config.SplitByRequest
	seen := map[*model]map[string]int{bySubject: {}, byRequest: {}}
	for m, counts := range seen {
		for i := range 1000 {
			x := &exchange{model: m, id: fmt.Sprintf("request-%d", i), claims: &token.Claims{Subject: "u-1"}}
			if err := new(proxy).pickVariant(x); err != nil {
				t.Fatal(err)
			}
			counts[x.variant.Name]++
		}
	}
	if len(seen[bySubject]) != 1 {
		t.Errorf("one subject got several variants: %v", seen[bySubject])
	}
	if !within(seen[byRequest]["v0"], 1000, 0.5) {
		t.Errorf("requests are spread %v", seen[byRequest])
	}
}

func BenchmarkChoose(b *testing.B) {
	m := weighted("2026-11", 90, 5, 5)
	b.ReportAllocs()
	for b.Loop() {
		m.choose("0123456789abcdef0123456789abcdef")
	}
}
