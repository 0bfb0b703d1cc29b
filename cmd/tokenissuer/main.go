// Command tokenissuer turns logins into short-lived completion tokens.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/ghostline-dev/ghostline/internal/secretstore"
	"github.com/ghostline-dev/ghostline/internal/service"
	"github.com/ghostline-dev/ghostline/tokenissuer"
	"github.com/ghostline-dev/ghostline/tokenissuer/keys"
	"github.com/google/uuid"
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
			store, err := keyStore(config.Keys, env)
			if err != nil {
				env.Listeners.Close()
				return fmt.Errorf("%w: keys.secret: %w", service.ErrConfig, err)
			}
			return tokenissuer.Run(ctx, tokenissuer.Options{
				Config: config, Listeners: env.Listeners, Log: env.Log, Metrics: env.Metrics, KeyStore: store,
			})
		},
	}
}

// keyStore is the Secret that the configuration names; nil if it names none.
func keyStore(config tokenissuer.KeysConfig, env service.Env) (keys.Store, error) {
	if config.Secret == "" {
		return nil, nil
	}
	api, namespace, err := secretstore.Environment()
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	return secretstore.Open(secretstore.Options{
		API: api, Namespace: namespace, Name: config.Secret, Identity: host + "_" + uuid.NewString(), Log: env.Log,
	})
}
