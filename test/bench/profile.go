package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/ghostline-dev/ghostline/test/bench/load"
	"golang.org/x/sync/errgroup"
)

const (
	profileFor = 10 * time.Second
	// loadFor is how long each load lasts while the profile is taken.
	loadFor = time.Second
)

// runProfile writes a processor profile of the proxy, taken while it has the base's
// load, or that of the first cell that -run names.
func runProfile(ctx context.Context, o options) error {
	p, err := o.plan()
	if err != nil {
		return err
	}
	c := p.cells[0]
	r, err := startRig(ctx, o.bin)
	if err != nil {
		return err
	}
	defer r.stop()
	proxy, err := ghostline(ctx, r)
	if err != nil {
		return err
	}
	defer proxy.process.stop()
	conns, err := proxy.connect(ctx, r, c, false)
	if err != nil {
		return err
	}
	defer load.CloseAll(conns)
	group, ctx := errgroup.WithContext(ctx)
	loaded, enough := context.WithCancel(ctx)
	group.Go(func() error {
		defer enough()
		profile, err := fetchProfile(ctx, proxy.admin)
		if err != nil {
			return err
		}
		return os.WriteFile(o.profile, profile, 0o644)
	})
	group.Go(func() error {
		closed := load.Closed{InFlight: inFlight, For: loadFor}
		for loaded.Err() == nil {
			if _, err := closed.Run(ctx, conns, c.request(completionsPath, modelServed)); err != nil {
				return err
			}
		}
		return nil
	})
	return group.Wait()
}

func fetchProfile(ctx context.Context, admin string) ([]byte, error) {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", admin, int(profileFor.Seconds()))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the profile: %s", resp.Status)
	}
	return io.ReadAll(resp.Body)
}
