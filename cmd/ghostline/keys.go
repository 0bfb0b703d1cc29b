package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/ghostline-dev/ghostline/tokenissuer/keys"
	"github.com/spf13/cobra"
)

// newKeys works on files alone: whoever may write to the directory may do all of
// this without it, and nobody else may.
func newKeys() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "List, rotate or withdraw a token issuer's signing keys",
		Long: `Keys lists the signing keys in a token issuer's directory (keys.directory of its
configuration), asks for a rotation, or withdraws keys. It reads and writes files
there, and an issuer that runs takes them up at once. For keys in a Kubernetes
Secret see docs/keys.md.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVar(&dir, "directory", "", "the issuer's `DIR` of signing keys (required)")
	needed := func(_ *cobra.Command, _ []string) error {
		if dir == "" {
			return usageError{errors.New("--directory is missing; name the issuer's directory of signing keys")}
		}
		return nil
	}
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Short: "List the keys; none of them is shown", Args: noArgs, PreRunE: needed,
			RunE: func(cmd *cobra.Command, _ []string) error { return listKeys(cmd.OutOrStdout(), dir) },
		},
		&cobra.Command{
			Use: "rotate", Short: "Ask for a rotation; no request is lost by it", Args: noArgs, PreRunE: needed,
			RunE: func(*cobra.Command, []string) error { return rotateKeys(dir) },
		},
		newKeysWithdraw(&dir, needed),
	)
	return cmd
}

func newKeysWithdraw(dir *string, needed func(*cobra.Command, []string) error) *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use:   "withdraw [KID...]",
		Short: "Withdraw keys at once and for good",
		Long: `Withdraw removes keys that somebody else may have. The issuer stops publishing and
signing with them at once, and their tokens end at each proxy when it next fetches
the key set. The newest key that is left signs, or a fresh one if none is left.
Where the directory itself may have been read, withdraw them --all.`,
		PreRunE: needed,
		RunE: func(cmd *cobra.Command, ids []string) error {
			if all == (len(ids) > 0) {
				return usageError{errors.New("give either the ids of keys, as `ghostline keys list` has them, or --all")}
			}
			return withdrawKeys(cmd.OutOrStdout(), *dir, ids)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "withdraw all keys")
	return cmd
}

func listKeys(out io.Writer, dir string) error {
	state, err := keys.ReadDirectory(dir)
	if err != nil {
		return fmt.Errorf("signing keys: %w", err)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "KID\tMADE\tSIGNS SINCE")
	for _, key := range state.Keys {
		since := "waits"
		if !key.Signs.IsZero() {
			since = key.Signs.Format(time.RFC3339)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", key.KeyID, key.Made.Format(time.RFC3339), since)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return brokenKeys(state)
}

// brokenKeys names what an issuer would refuse to start with.
func brokenKeys(state keys.State) error {
	var problems []error
	for name, err := range state.Broken {
		problems = append(problems, fmt.Errorf("%s: %w", name, err))
	}
	return errors.Join(problems...)
}

func rotateKeys(dir string) error {
	if _, err := keys.ReadDirectory(dir); err != nil { // a directory that is none would get a file
		return fmt.Errorf("signing keys: %w", err)
	}
	return keys.AskRotation(dir)
}

// withdrawKeys withdraws those with the ids, or all. It first looks whether all are
// there, so that a slip of the pen withdraws none.
func withdrawKeys(out io.Writer, dir string, ids []string) error {
	state, err := keys.ReadDirectory(dir)
	if err != nil {
		return fmt.Errorf("signing keys: %w", err)
	}
	for _, id := range ids {
		if !slices.ContainsFunc(state.Keys, func(k keys.Key) bool { return k.KeyID == id }) {
			return fmt.Errorf("there is no key %s in %s; `ghostline keys list` has those that are", id, dir)
		}
	}
	for _, key := range state.Keys {
		if len(ids) > 0 && !slices.Contains(ids, key.KeyID) {
			continue
		}
		if err := keys.Withdraw(dir, key); err != nil {
			return fmt.Errorf("withdraw: %w", err)
		}
		fmt.Fprintln(out, "withdrawn:", key.KeyID)
	}
	return brokenKeys(state)
}
