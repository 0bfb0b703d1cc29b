// Command tokenissuer turns logins into short-lived completion tokens.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/ghostline-dev/ghostline/internal/service"
	"github.com/ghostline-dev/ghostline/tokenissuer"
)

func main() { command().Main() }

func command() service.Command {
	var file string
	return service.Command{
		Name: "tokenissuer",
		Flags: func(set *flag.FlagSet) {
			set.StringVar(&file, "config", "", "`FILE` with the issuer's configuration (YAML or JSON); it is read at the start only")
		},
		Check: func() error {
			if file == "" {
				return errors.New("-config is missing; name the issuer's configuration file")
			}
			return nil
		},
		Run: func(ctx context.Context, env service.Env) error {
			config, err := tokenissuer.LoadConfig(file)
			if err != nil {
				env.Listeners.Close()
				return fmt.Errorf("%w: %w", service.ErrConfig, err)
			}
			return tokenissuer.Run(ctx, tokenissuer.Options{Config: config, Listeners: env.Listeners, Log: env.Log, Metrics: env.Metrics})
		},
	}
}
