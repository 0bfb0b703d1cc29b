package depcheck

// Rules are the import rules of this module. In one line:
//
//	cmd → {controllers, proxy, tokenissuer, client} → {proxy/config, internal/token} → libraries
//
// The data plane knows nothing of Kubernetes, so that it can be run, tested and
// embedded without it; the parts in the middle meet only over sockets and in the
// packages on the right.
func Rules() []Rule {
	return []Rule{
		{
			From: []string{"./..."}, Deny: []string{"./cmd/..."}, Tests: true,
			Because: "nothing imports cmd: it only turns flags into options",
		},
		{
			From: []string{"./proxy/...", "./tokenissuer/...", "./client/..."},
			Deny: []string{"./api/...", "./controllers/...", "k8s.io/...", "sigs.k8s.io/controller-runtime/..."},
			Deep: true, Tests: true,
			Because: "proxy, tokenissuer and client know nothing of Kubernetes",
		},
		{
			From: []string{"./proxy/..."}, Deny: []string{"./tokenissuer/...", "./client/..."}, Deep: true,
			Because: "proxy meets tokenissuer only in internal/token, and its clients only on the wire",
		},
		{
			From: []string{"./tokenissuer/..."}, Deny: []string{"./proxy/...", "./client/..."}, Deep: true,
			Because: "tokenissuer meets proxy only in internal/token, and its clients only on the wire",
		},
		{
			From: []string{"./client/..."}, Deny: []string{"./proxy/...", "./tokenissuer/..."},
			Except: []string{"./proxy/sse"}, Deep: true,
			Because: "client shares the event framing of proxy/sse with the servers and nothing else",
		},
		{
			From: []string{"./controllers/..."}, Deny: []string{"./proxy/...", "./tokenissuer/...", "./client/..."},
			Except: []string{"./proxy/config"}, Deep: true,
			Because: "controllers write proxy/config and never run the data plane",
		},
		{
			From: []string{"./controllers/compile", "./controllers/resources"},
			Deny: []string{"net", "net/http/...", "os/...", "syscall", "context", "k8s.io/client-go/...", "sigs.k8s.io/controller-runtime/..."},
			// What is to be applied has types, which open no connection.
			Except:  []string{"k8s.io/client-go/applyconfigurations/..."},
			Because: "compile and resources are pure: the same route gives the same bytes, in a cluster and on a laptop",
		},
		{
			From: []string{"./controllers/compile", "./controllers/routefile"},
			Deny: []string{"k8s.io/client-go/...", "sigs.k8s.io/controller-runtime/..."}, Deep: true,
			Because: "a route is compiled and checked without a cluster to ask",
		},
		{
			From:    []string{"./api/..."},
			Deny:    []string{"./...", "net/...", "os/...", "syscall", "k8s.io/client-go/...", "sigs.k8s.io/controller-runtime/..."},
			Except:  []string{"./api/...", "sigs.k8s.io/controller-runtime/pkg/scheme"},
			Because: "api holds types and constants, no logic",
		},
		{
			From: []string{"./proxy/config"}, Deny: []string{"./proxy/..."}, Deep: true,
			Because: "proxy/config is a leaf: the operator links it without the proxy",
		},
		{
			From: []string{"./proxy/sse"}, Deny: []string{"./..."},
			Because: "proxy/sse is a leaf: the client links it without the proxy",
		},
		{
			From: []string{"./internal/token"}, Deny: []string{"net/http/..."}, Deep: true,
			Because: "internal/token checks claims and signatures; fetching keys is its callers' work",
		},
		{
			From:    []string{"./proxy/config", "./proxy/provider", "./proxy/sse"},
			Deny:    []string{"net", "net/http/...", "net/rpc/...", "net/smtp", "os/...", "syscall", "golang.org/x/net/...", "golang.org/x/sys/..."},
			Because: "the wire config, dialects and event framing do no I/O: bytes in, bytes out",
		},
		{
			From: []string{"./..."}, Deny: []string{"./internal/secretstore"}, Files: []string{"cmd/tokenissuer/*"},
			Because: "the issuer knows Kubernetes in one package, which only cmd/tokenissuer plugs in",
		},
		{
			From: []string{"./test/strict"}, Deny: []string{"./..."}, Tests: true,
			Because: "test/strict is written from the providers' references alone: it must not know what we send",
		},
		{
			From: []string{"./proxy/..."}, Deny: []string{"net/http/...", "golang.org/x/net/http2/..."},
			// auth/keys.go fetches the issuer's keys in the background, off the request path.
			Files:   []string{"proxy/server.go", "proxy/attempt.go", "proxy/stream.go", "proxy/upstream/*", "proxy/auth/keys.go"},
			Because: "deciding is kept apart from moving bytes, so the HTTP engine can be replaced; only the listed files move bytes",
		},
	}
}

// topFolders are the folders that the module may have at its top.
func topFolders() []string {
	return []string{
		"api", "charts", "client", "cmd", "config", "controllers", "docs", "hack", "internal", "proxy", "test", "tokenissuer",
		"bin", // what `make build` makes, not in the repository
	}
}

// vagueNames are names that no package may have: they say nothing of what the
// package provides, so everything ends up in it.
func vagueNames() []string {
	return []string{"common", "helper", "helpers", "misc", "shared", "util", "utils"}
}
