# Two commands matter: `make serve` and `make test`. Each sets up what it needs; `make help` lists the rest.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup setup-tests build serve test check format-check fmt lint doc queries tree unit doctest browser bench deny clean

CARGO ?= cargo
# One profile for clippy, tests and build, and one choice of features (--workspace): each other one compiles all anew.
RELEASE := --release --locked
TARGET := $(or $(CARGO_TARGET_DIR),target)

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup:
	@scripts/setup-system
	@scripts/setup-libtorch

setup-tests: setup
	@scripts/setup-system tests

build: setup ## build target/release/board and target/release/trainer
	$(CARGO) build $(RELEASE) -p board -p trainer

serve: build ## set everything up and open the board on http://127.0.0.1:7860 (ARGS="--port 8000 --data-dir DIR")
	exec $(TARGET)/release/board serve $(if $(DISPLAY)$(WAYLAND_DISPLAY),--open) $(ARGS)

test: setup-tests ## run every check and every test
	@$(MAKE) --no-print-directory check unit doctest browser

check: format-check tree queries lint doc ## run the checks that run no test

format-check:
	$(CARGO) fmt --all -- --check

fmt: ## format the Rust code
	$(CARGO) fmt --all

tree:
	scripts/check-tree

queries:
	scripts/prepare-queries --check

lint: setup ## run clippy, warnings are errors
	$(CARGO) clippy $(RELEASE) --workspace --all-targets -- -D warnings
	$(CARGO) clippy $(RELEASE) --workspace --test browser --test browser-smollm2 -- -D warnings

doc: setup
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc $(RELEASE) --workspace --no-deps --quiet

unit: build
	python3 -B -m unittest discover -s scripts/tests
	$(CARGO) test $(RELEASE) --workspace --lib --bins --tests

doctest: setup
	$(CARGO) test $(RELEASE) --workspace --doc

browser: build setup-tests ## run the tests in a real browser; screenshots go to target/screenshots
	$(CARGO) test $(RELEASE) --workspace --test browser -- --test-threads=1

bench: build ## print the figures of this machine (MODEL=DIR of SmolLM2-135M-Instruct, DATA=DIR of its rows)
	scripts/bench $(MODEL) $(DATA)

deny: ## check licences, bans and sources of every dependency (needs cargo-deny)
	scripts/deny

clean: ## remove what was built (the libtorch in the user's cache stays)
	$(CARGO) clean
