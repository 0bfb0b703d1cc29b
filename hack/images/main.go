// Command images builds Ghostline's container images as files, without a container
// engine: for each program bin/images/NAME.tar, an OCI image layout with an image for
// each platform. The same source and the same Go give the same bytes.
//
// It is a module of its own, so that what it needs to write images and to trust
// certificate authorities is never a dependency of Ghostline.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

// run is main without the process.
func run(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
	b := builder{log: stdout}
	var platforms, rootfs string
	set := flag.NewFlagSet("images", flag.ContinueOnError)
	set.StringVar(&b.module, "module", "../..", "`DIR` of Ghostline's module")
	set.StringVar(&b.out, "out", "../../bin/images", "`DIR` to write NAME.tar to")
	set.StringVar(&platforms, "platforms", "linux/amd64,linux/arm64", "`LIST` of OS/ARCHITECTURE")
	set.StringVar(&b.prefix, "prefix", "", "`PREFIX` of the images' names, such as registry.example.com/team/")
	set.StringVar(&b.version, "version", "", "`TAG` of the images; default: the version that Go stamps into the programs")
	set.StringVar(&rootfs, "rootfs", "", "`DIR` to write an image's files to instead, for one program and one platform")
	set.Usage = func() {
		fmt.Fprintf(set.Output(), "usage: images [flags] [NAME...]\nNAMEs are %s; default: all\n", strings.Join(names(), ", "))
		set.PrintDefaults()
	}
	if err := set.Parse(args); err != nil {
		return err
	}
	var err error
	if b.platforms, err = parsePlatforms(platforms); err != nil {
		return err
	}
	if b.epoch, err = parseEpoch(getenv("SOURCE_DATE_EPOCH")); err != nil {
		return err
	}
	chosen, err := choose(set.Args())
	if err != nil {
		return err
	}
	if rootfs != "" {
		if len(chosen) != 1 || len(b.platforms) != 1 {
			return fmt.Errorf("-rootfs is for one program and one platform, not for %d and %d", len(chosen), len(b.platforms))
		}
		return b.writeRootfs(ctx, chosen[0], rootfs)
	}
	for _, p := range chosen {
		if err := b.writeArchive(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}
