package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"

	"golang.org/x/sync/errgroup"
)

// profile writes a processor profile of the proxy, taken while it is loaded.
func (r *rig) profile(ctx context.Context, o options) error {
	file, err := os.Create(o.profile)
	if err != nil {
		return err
	}
	defer file.Close()
	const seconds = 10
	group, ctx := errgroup.WithContext(ctx)
	loaded, stop := context.WithCancel(ctx)
	group.Go(func() error {
		defer stop()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", r.ghostline.admin, seconds), nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(file, resp.Body)
		return err
	})
	group.Go(func() error {
		for loaded.Err() == nil {
			if err := r.load(ctx, r.ghostline, o.requests, false); err != nil {
				return err
			}
		}
		return nil
	})
	return group.Wait()
}
