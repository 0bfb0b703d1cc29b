// Command modelserver runs the stand-in for a GPU that the demo and the tests
// put behind the proxy: an OpenAI-compatible completion server with slots, steps
// and faults. Package internal/modelserver says what it is and is not.
package main

import (
	"context"
	"flag"

	"github.com/ghostline-dev/ghostline/internal/modelserver"
	"github.com/ghostline-dev/ghostline/internal/service"
)

func main() { command().Main() }

func command() service.Command {
	var o modelserver.Options
	return service.Command{
		Name:  "modelserver",
		Flags: func(set *flag.FlagSet) { addFlags(set, &o) },
		Run: func(ctx context.Context, env service.Env) error {
			o.Listeners, o.Log, o.Metrics = env.Listeners, env.Log, env.Metrics
			return modelserver.Run(ctx, o)
		},
	}
}

func addFlags(set *flag.FlagSet, o *modelserver.Options) {
	set.Func("corpus", "`path` of a file or directory to train on; may be repeated (default: the server's own source)", appendTo(&o.Corpus))
	set.Func("model", "`name` of a model to answer to; may be repeated (default: any)", appendTo(&o.Models))
	set.DurationVar(&o.FirstToken, "first-token", 0, "`time` to the first token")
	set.DurationVar(&o.FirstTokenPerKiB, "first-token-per-kib", 0, "`time` to the first token that each KiB of prompt and suffix adds")
	set.Float64Var(&o.TokensPerSecond, "tokens-per-second", 0, "`rate` of a slot; 0 is as fast as it goes")
	set.IntVar(&o.TokensPerEvent, "tokens-per-event", 1, "`number` of tokens in one event of a stream")
	set.IntVar(&o.Slots, "slots", 0, "`number` of requests that work at a time; 0 is no limit")
	set.DurationVar(&o.Step, "step", modelserver.DefaultStep, "how `often` busy work looks for a cancel")
	set.StringVar(&o.Fault, "fault", "", "`forms` of a fault of every request, joined by \";\":\n"+modelserver.FaultForms)
}

func appendTo(list *[]string) func(string) error {
	return func(value string) error {
		*list = append(*list, value)
		return nil
	}
}
