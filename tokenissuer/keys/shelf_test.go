package keys

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// shelf is a Store in memory, as one of several issuers sees it.
type shelf struct {
	*content
	leads bool
}

type content struct {
	mu      sync.Mutex
	entries map[string][]byte
	version int
	decoded State
	failing error  // of Load
	refuses error  // of Save
	before  func() // Save
	told    []chan struct{}
}

func newShelf() *shelf {
	return &shelf{content: &content{entries: map[string][]byte{}}, leads: true}
}

func (s *shelf) Load(context.Context) (State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing != nil {
		return State{}, s.failing
	}
	// Decoding keys every few seconds of days would take the test minutes.
	if version := fmt.Sprint(s.version); s.decoded.Version != version {
		names := slices.Sorted(maps.Keys(s.entries))
		s.decoded = Decode(names, version, func(name string) ([]byte, error) { return s.entries[name], nil })
	}
	state := s.decoded
	state.Keys = slices.Clone(state.Keys)
	return state, nil
}

func (s *shelf) Save(_ context.Context, from, to State) error {
	if s.before != nil {
		s.before()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuses != nil {
		return s.refuses
	}
	if from.Version != fmt.Sprint(s.version) {
		return ErrConflict
	}
	s.version++
	changes := Diff(from, to)
	for _, key := range changes.Put {
		s.entries[key.EntryName()], _ = key.Encode()
	}
	for was, name := range changes.Rename {
		s.entries[name] = s.entries[was]
		delete(s.entries, was)
	}
	for _, name := range changes.Remove {
		delete(s.entries, name)
	}
	return nil
}

func (s *shelf) Leads() bool { return s.leads }

func (s *shelf) Watch(ctx context.Context, changed func()) {
	told := make(chan struct{}, 10)
	s.mu.Lock()
	s.told = append(s.told, told)
	s.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return
		case <-told:
			changed()
		}
	}
}

// set does something to the entries, and tells.
func (s *shelf) set(do func(c *content)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do(s.content)
	s.version++
	for _, told := range s.told {
		told <- struct{}{}
	}
}

// withdraw takes a key away as a person would.
func (s *shelf) withdraw(id string) {
	s.set(func(c *content) {
		maps.DeleteFunc(c.entries, func(name string, _ []byte) bool { return strings.Contains(name, id) })
	})
}
