# lockbench: measure distributed locks. `make help` lists the targets.

GO      ?= go
COMMIT  := $(shell git describe --always --dirty=+dirty --abbrev=12 --exclude='*' 2>/dev/null)
LDFLAGS := -X main.commit=$(COMMIT)

# The linter is a tool of its own with its own modules, so it stays out of go.mod.
LINT    := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# Compilers and test servers share few cores with tests that need both. But most tests
# wait, for a lease to end or a server to come up, so one package more than there are
# cores is tested at a time, and first those that take longest.
FLAGS   := -timeout=60m -p=$(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
ALL     := ./impls ./bench ./impls/redis/queue ./impls/redis ./...
# It says at the end what this machine could not test, which go test keeps to itself.
TEST    := $(GO) run ./bench/tests $(if $(FAILURES),-fail $(FAILURES)) $(if $(AGAIN),-again $(AGAIN)) $(FLAGS)

# A long run may be kept under a name of its own: make plots RUN=results/runs/mine.jsonl
# What another profile measures is not kept: make plots PROFILE=smoke leaves its run and
# its pictures in bin/smoke.
PROFILE ?= quick
ifeq ($(PROFILE),quick)
RUN     ?= results/runs/quick.jsonl
GROW    ?= 2
GALLERY ?= plots/gallery
else
RUN     ?= bin/$(PROFILE)/run.jsonl
GROW    ?= 1
GALLERY ?= bin/$(PROFILE)/gallery
endif

# What a longer run measures is not kept either: it is judged where it was measured.
REDIS_RUN   ?= bin/redis.jsonl
ENGINES_RUN ?= bin/engines.jsonl
POWER_RUN   ?= bin/power.jsonl

.DEFAULT_GOAL := help
.PHONY: help build test race soak mutants lint cover servers bench bench-harness check-search check-theory validate-model bench-redis bench-engines power report plots clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/lockbench
	$(GO) build -ldflags '$(LDFLAGS)' -o bin/lockbench ./bench/lockbench

test: ## run all tests
	$(TEST) $(ALL)

# Drawing is slow under the race detector and runs in one goroutine, as a test sees to.
race: ## run all tests under the race detector, without the longest
	$(TEST) -short -race $(filter-out ./...,$(ALL)) $$($(GO) list ./... | grep -v '/plots$$')

soak: ## work all sound variants for ten minutes under the race detector
	LOCKBENCH_SOAK=10m $(GO) test -race -timeout 60m -count 1 -v -run TestSoak ./impls
	@newer=$$(scripts/newer) || { echo "soak: redis-token-native is not worked: no newer server is to be had"; exit 1; }; \
	LOCKBENCH_REDIS_SERVER=$$newer LOCKBENCH_REQUIRE=valkey9 LOCKBENCH_SOAK=10m $(GO) test -race -timeout 60m -count 1 -v -run TestSoak/redis-token-native ./impls

mutants: ## check that the safety tester finds every seeded bug
	$(GO) test -count=1 -timeout 10m -run Mutants ./harness/safety

lint: ## check format, vet and style
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(LINT) run ./...

cover: ## run all tests and show what they cover
	$(GO) test $(FLAGS) -coverpkg=./... -coverprofile=cover.out $(ALL)
	$(GO) tool cover -func=cover.out | tail -n 1

servers: build ## show which servers were found and how to get the others
	bin/lockbench servers

bench: ## run the benchmarks in the format that benchstat reads
	$(GO) test -run '^$$' -bench . -count 3 -timeout 60m ./bench

bench-harness: ## measure what the harness itself costs
	$(GO) test -run '^$$' -bench . -timeout 30m ./harness ./impls/local ./results

check-search: ## search knees that are known in closed form, a hundred times each, in three minutes
	$(GO) test -count=1 -v -run TestKnownKnees ./harness/search -searches 100

check-theory: ## compare the waits of open loops with queueing theory, in five minutes
	$(GO) run ./bench/theory

plots: build ## measure PROFILE (default quick; smoke takes a minute), draw it, and say where the pictures are
	@mkdir -p $(dir $(RUN)) && rm -f $(RUN)
	@echo bin/lockbench run -profile $(PROFILE) -grow $(GROW) -out $(RUN)
	@bin/lockbench run -profile $(PROFILE) -grow $(GROW) -out $(RUN) || { [ $$? = 1 ] && $(INVALID); }
	bin/lockbench plot -in $(RUN) -out $(GALLERY)

# A busy machine may leave no run valid, which is drawn all the same. A run that failed
# otherwise ends make plots: of what was measured some is valid then, or there is nothing.
INVALID = [ -s $(RUN) ] && ! grep -v '"algo":"local-[mr]' $(RUN) | grep -q '"valid":{"ok":true' && \
	echo 'make plots: no run is valid, so the pictures show what was measured, and prove nothing'

validate-model: ## show how far predictions are off, on loads that no model has seen, in about 25 minutes
	$(GO) run ./bench/validate $(if $(FORECASTS),-out $(FORECASTS))

report: build ## plan for the bundled needs with fresh runs and a search, play the faults, and write bin/report.html, in less than 20 minutes
	@mkdir -p bin/report && rm -f bin/report/*.jsonl
	bin/lockbench plan -example >bin/report/needs.yaml
	bin/lockbench plan -need bin/report/needs.yaml -measure -out bin/report/plan.jsonl
	bin/lockbench run -algo redis-handoff/goredis -hold 2ms -owners 64 -procs 8 -for 3s -slo 'response-p99<20ms' -search -out bin/report/search.jsonl || [ $$? = 1 ]
	bin/lockbench run -algo redis-token,redis-handoff -client goredis -owners 32 -fault pause@2s+500ms -for 5s -grow 1 -out bin/report/faults.jsonl || [ $$? = 1 ]
	bin/lockbench safety -short -out bin/report/safety.jsonl || [ $$? = 1 ]
	bin/lockbench report -in $(RUN) -in bin/report/plan.jsonl -in bin/report/search.jsonl -in bin/report/faults.jsonl -in bin/report/safety.jsonl \
		$(if $(FORECASTS),-in $(FORECASTS)) -need bin/report/needs.yaml -out bin/report.html

bench-redis: build ## measure the Redis locks beside their peers, in 20 minutes, and judge what is claimed of them
	@rm -f $(REDIS_RUN)
	bin/lockbench run -profile redis -grow 1 -out $(REDIS_RUN)
	$(GO) test -run '^$$' -bench Relay -benchtime 5x ./impls
	bin/lockbench compare -claims redis $(REDIS_RUN)

bench-engines: build ## measure the same loads on every engine that is found, in 20 minutes, and what merely held locks cost
	@rm -f $(ENGINES_RUN)
	bin/lockbench run -profile engines -grow 1 -out $(ENGINES_RUN)
	$(GO) test -run '^$$' -bench Held -benchtime 1x -timeout 30m ./impls
	$(GO) test -run '^$$' -bench Kazoo -benchtime 5x ./impls/zookeeper
	bin/lockbench compare -claims engines $(ENGINES_RUN)

# Short runs, as it takes many of them: what they see is what runs of a third of a second see.
power: build ## measure 200 blocks in 7 minutes, and say which slow-downs compare would see in 20 of them
	@rm -f $(POWER_RUN)
	bin/lockbench run -algo redis-token,redis-handoff -procs 2 -owners 8 -hold 1ms -warmup 100ms -for 300ms -grow 1 -repeat 200 -out $(POWER_RUN)
	bin/lockbench compare -aa -pairs 20 $(POWER_RUN)
	bin/lockbench compare -power -pairs 20 $(POWER_RUN)

clean: ## remove what was built, not what was measured
	rm -rf bin cover.out
