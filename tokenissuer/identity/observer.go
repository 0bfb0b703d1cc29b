package identity

import (
	"errors"
	"time"
)

// CacheResult is how a Cached came by an answer.
type CacheResult string

// The results of a cache.
const (
	CacheHit      CacheResult = "hit"      // from memory
	CacheNegative CacheResult = "negative" // nobody's, from memory
	CacheAsked    CacheResult = "asked"    // the provider answered
	CacheStale    CacheResult = "stale"    // the provider is out: its last good answer
	CacheOutage   CacheResult = "outage"   // the provider is out, and nothing is remembered
	CacheBusy     CacheResult = "busy"     // too many wait for the provider
	CacheLeft     CacheResult = "left"     // the client went away while the provider was asked
)

// LookupResult is how a lookup at a provider ended.
type LookupResult string

// The results of a lookup.
const (
	LookupKnown   LookupResult = "known"
	LookupUnknown LookupResult = "unknown"
	LookupLimited LookupResult = "limited" // the provider wants to be left alone for a while
	LookupOutage  LookupResult = "outage"
)

func lookupResult(err error) LookupResult {
	var more *OutageError
	switch {
	case err == nil:
		return LookupKnown
	case errors.Is(err, ErrUnknownCredential):
		return LookupUnknown
	case errors.As(err, &more) && more.RetryAfter > 0:
		return LookupLimited
	}
	return LookupOutage
}

// Observer is told what a Cached does, for metrics. It must not wait.
type Observer interface {
	// Answered is told of each answer.
	Answered(result CacheResult)
	// Asked is told of each lookup that reached the provider.
	Asked(result LookupResult, took time.Duration)
	// Up is told at the start, and when the provider goes out and comes back.
	Up(up bool)
}

type unobserved struct{}

func (unobserved) Answered(CacheResult)              {}
func (unobserved) Asked(LookupResult, time.Duration) {}
func (unobserved) Up(bool)                           {}
