# Everything here needs Go and make, runs as any user and writes only below this
# folder, the Go caches and, for test-api, the user's. `make help` lists the targets.

BINARIES := operator proxy tokenissuer modelserver ghostline
FUZZTIME ?= 30s

# Static binaries, and no C compiler needed. Only the race detector asks for cgo.
export CGO_ENABLED := 0

# The tools have a module of their own, so that what they depend on is pinned
# and yet never a dependency of Ghostline.
TOOL := go tool -modfile=hack/tools/go.mod

.DEFAULT_GOAL := help

##@ Build and run

.PHONY: build
build: ## Build the binaries into bin/
	go build -trimpath -o bin/ $(BINARIES:%=./cmd/%)

# With the flags of build, so that nothing is compiled twice.
.PHONY: demo
demo: build ## Show the whole on this machine: log in, stream, type, cancel; ends by itself
	go run -trimpath ./hack/demo -bin bin

# PLATFORMS=linux/amd64 for one platform, NAMES="proxy operator" for some programs,
# PREFIX=registry.example.com/team/ before the images' names.
.PHONY: images
images: ## Build container images into bin/images/, without a container engine
	@go -C hack/images run . $(PLATFORMS:%=-platforms %) $(PREFIX:%=-prefix %) $(VERSION:%=-version %) $(NAMES)

.PHONY: clean
clean: ## Remove what the other targets made
	rm -rf bin

##@ Test

.PHONY: test
test: test-unit test-images test-api ## Run every test that needs only Go

# Of a package's 30 minutes test/feature needs most, on a slow machine.
.PHONY: test-unit
test-unit: ## Run the tests beside the code, with the race detector where a C compiler is found
	@sh hack/go-test.sh -timeout 30m ./...
	@go test -run '^TestArrivalsAfterOutage$$' ./tokenissuer # with all its clients, which it has only without the race detector

# Go does not see that what the images are built of has changed, so -count=1.
.PHONY: test-images
test-images: ## Build the images for this machine, run their programs, build again and compare
	@go -C hack/images test -count=1 ./...

.PHONY: test-api
test-api: ## Test against a real Kubernetes API server, which it builds once, in ten minutes or so
	@sh hack/test-api.sh

.PHONY: test-interop
test-interop: ## Test between real clients and a real engine, which it installs; needs root, npm
	@sh hack/test-interop.sh

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (30s)
	@FUZZTIME=$(FUZZTIME) sh hack/fuzz.sh

# With the flags of build, so that nothing is compiled twice. BENCHFLAGS as it is
# written, since a regular expression may hold a $.
.PHONY: bench
bench: build ## Measure the proxy beside others, on Linux, 10 minutes; QUICK=1: in less than one
	@sh hack/bench-peers.sh
	go run -trimpath ./test/bench -bin bin $(if $(QUICK),-quick) $(value BENCHFLAGS)

.PHONY: bench-stages
bench-stages: ## Measure the proxy's stages one by one, with allocations
	go test -run '^$$' -bench . -benchmem ./proxy/... ./internal/token

##@ Check

.PHONY: lint
lint: ## Check formatting, go vet and staticcheck
	@sh hack/verify-format.sh
	go vet ./...
	$(TOOL) staticcheck ./...
	go -C hack/images vet ./...
	cd hack/images && go tool -modfile=../tools/go.mod staticcheck ./...

.PHONY: generate
generate: ## Write the generated files anew
	go generate ./...

.PHONY: verify
verify: lint ## lint, and: generated files and go.mod are up to date, no known vulnerability
	@sh hack/verify-generated.sh
	go mod tidy -diff
	go -C hack/tools mod tidy -diff
	go -C hack/promtool mod tidy -diff
	go -C hack/images mod tidy -diff
	go -C hack/kubernetes mod tidy -diff
	@sh hack/verify-vulnerabilities.sh

##@ Help

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
