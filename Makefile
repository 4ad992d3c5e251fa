# Builds, checks and installs lio. `make help` lists the targets.
# Cargo decides which files are out of date, so every target calls it. Each feature set has its own target
# folder, so that building one set never rebuilds another.

# The version of Lua: 5.4, 5.5, or the path of an interpreter of either version (LuaRocks passes a path).
LUA ?= 5.4
PREFIX ?= /usr/local
CARGO ?= cargo
# The stock interpreter of Lua 5.4, which is the second host of the tests.
LUA54 ?= lua5.4
# Only suites whose name contains this word run: make suites ONLY=socket
ONLY ?=
# Suites and options of the benchmarks: make bench SUITES='http rounds=3'
SUITES ?=

LUA_VERSION := $(if $(findstring /,$(LUA)),$(shell '$(LUA)' -e 'print((_VERSION:gsub("Lua ", "")))'),$(LUA))
ifeq ($(filter $(LUA_VERSION),5.4 5.5),)
$(error LUA is "$(LUA)": lio is built for Lua 5.4 or 5.5)
endif
FEATURE := lua$(subst .,,$(LUA_VERSION))

# A comma, for use inside a function call of make.
, := ,

TARGET := $(or $(CARGO_TARGET_DIR),target)
# The default features are built in $(TARGET) itself, as by `cargo build`.
BIN_TARGET := $(TARGET)$(if $(filter 5.5,$(LUA_VERSION)),/lua55)
MODULE_TARGET := $(TARGET)/module$(if $(filter 5.5,$(LUA_VERSION)),55)
BIN := $(BIN_TARGET)/release/lio
# Each Lua version has its own folder for the module.
MODULES := build$(if $(filter 5.5,$(LUA_VERSION)),/lua5.5)
# Debian has no interpreter of Lua 5.5: the tests build one from the sources of the executable.
STOCK := $(if $(filter 5.5,$(LUA_VERSION)),$(TARGET)/stock/lua5.5,$(LUA54))
LIBRARY := $(MODULE_TARGET)/release/liblio$(if $(filter Darwin,$(shell uname -s)),.dylib,.so)

# The default feature set is Lua 5.4, without other features, so that `cargo run` by hand uses the same files.
VENDORED := --target-dir '$(BIN_TARGET)'$(if $(filter 5.5,$(LUA_VERSION)), --no-default-features --features $(FEATURE)$(,)vendored)
# Rust's thread-locals do not survive an unload, so the linker marks the object: dlclose(3) does not unload it.
SHARED := --crate-type cdylib$(if $(filter Linux,$(shell uname -s)), -- -C link-arg=-Wl$(,)-z$(,)nodelete)
MODULE := --target-dir '$(MODULE_TARGET)' --no-default-features --features $(FEATURE),module

.PHONY: build module rock test suites checked sanitize panics loom test-long bench install lint tools clean help

build: ## the executable: target/release/lio
	$(CARGO) build --release --bin lio $(VENDORED)
	@echo 'built $(BIN)'

module: ## the shared object for a stock Lua: build/lio.so, for Lua 5.5 build/lua5.5/lio.so
	$(CARGO) rustc --release --lib $(MODULE) $(SHARED)
	@mkdir -p $(MODULES)
	@# A rename replaces the file: a process that has loaded the old file keeps it, and parallel builds do not conflict.
	new=$(MODULES)/lio.so.$$$$; cp '$(LIBRARY)' $$new && mv -f $$new $(MODULES)/lio.so
	@# Lua searches for the module `ltask.bootstrap` in a file that is named after the first part of the module's name.
	new=$(MODULES)/ltask.so.$$$$; ln -sf lio.so $$new && mv -f $$new $(MODULES)/ltask.so

rock: module
	@# For LuaRocks the file has the same path with every Lua version.
	@mkdir -p build/rock
	@# A rename replaces the file, as above: another process may be installing it.
	new=build/rock/lio.so.$$$$; cp $(MODULES)/lio.so $$new && mv -f $$new build/rock/lio.so

tools:
	@LUA54='$(LUA54)' sh tests/tools.sh

lint: tools ## formatting, clippy for both feature sets, luacheck, the lengths of functions, and the prose
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets $(VENDORED) -- -D warnings
	$(CARGO) clippy --all-targets $(MODULE) -- -D warnings
	luacheck --quiet .
	$(LUA54) tests/embedded_programs.lua
	$(LUA54) tests/lengths.lua
	$(LUA54) tests/english.lua

$(TARGET)/stock/lua5.5: tests/stock.c
	@mkdir -p '$(@D)'
	sh tests/stock.sh 5.5 '$@'

suites: tools build module $(filter $(TARGET)/%,$(STOCK))
	@LIO_BIN='$(BIN)' STOCK='$(STOCK)' MODULES='$(MODULES)' bash tests/run.sh '$(ONLY)'

checked: tools ## Rust tests and every Lua suite in the executable, with debug assertions and checks of the Lua API
	$(CARGO) test --profile checked $(VENDORED)
	$(CARGO) build --profile checked --bin lio $(VENDORED)
	@LIO_BIN='$(BIN_TARGET)/checked/lio' STOCK= bash tests/run.sh '$(ONLY)'

# Build scripts are not sanitized, so cargo needs an explicit target.
HOST := $(shell rustc -vV | sed -n 's/^host: //p')
SANITIZED := $(TARGET)/sanitize$(if $(filter 5.5,$(LUA_VERSION)),55)
REPORTS := $(abspath $(SANITIZED))/reports

sanitize: tools ## every Lua suite in the executable, which is built with AddressSanitizer, including Lua's C code
	@rm -rf '$(REPORTS)' && mkdir -p '$(REPORTS)'
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address CFLAGS='-fsanitize=address -fno-omit-frame-pointer' \
	  $(CARGO) build --profile checked --bin lio --target '$(HOST)' --target-dir '$(SANITIZED)' \
	  --no-default-features --features $(FEATURE)$(,)vendored$(,)plain_malloc
	@# A report of a child process fails the run too, even if its suite does not read the report. Locals must stay on the
	@# real stack, because the core compares their addresses to find frames that have ended (src/lua/store.rs).
	@ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0:log_path='$(REPORTS)/asan' LIO_TEST_SANITIZER=address LIO_TEST_SECONDS=600 \
	  LIO_BIN='$(SANITIZED)/$(HOST)/checked/lio' STOCK= bash tests/run.sh '$(ONLY)'; status=$$?; \
	  if [ -n "$$(ls -A '$(REPORTS)')" ]; then cat '$(REPORTS)'/*; echo 'AddressSanitizer reported errors'; exit 1; fi; \
	  exit $$status

# The folder of a build for `make panics` only: its functions panic when the suite requests it.
PANICS := $(TARGET)/panics$(if $(filter 5.5,$(LUA_VERSION)),55)

panics: tools $(filter $(TARGET)/%,$(STOCK)) ## a panic in each function that Lua can call, in both hosts
	$(CARGO) build --bin lio --target-dir '$(BIN_TARGET)' --no-default-features --features $(FEATURE)$(,)vendored$(,)panics
	$(CARGO) rustc --lib --target-dir '$(MODULE_TARGET)' --no-default-features --features $(FEATURE)$(,)module$(,)panics $(SHARED)
	@mkdir -p '$(PANICS)' && cp '$(MODULE_TARGET)/debug/$(notdir $(LIBRARY))' '$(PANICS)/lio.so' && ln -sf lio.so '$(PANICS)/ltask.so'
	LUA_PATH="$$PWD/?.lua;;" LIO_HOST='$(BIN_TARGET)/debug/lio' '$(BIN_TARGET)/debug/lio' tests/panics.lua
	LUA_PATH="$$PWD/?.lua;;" LUA_CPATH="$$PWD/$(PANICS)/?.so;;" LIO_HOST='$(STOCK)' '$(STOCK)' tests/panics.lua

# The steps run in this order even with `make -j`, because they share the processors and the target folders.
test: ## lint, Rust tests, loom's models, and every Lua suite in both hosts
	@$(MAKE) --no-print-directory lint
	$(CARGO) test --release $(VENDORED)
	@# The last step of a build uses only one thread, so the models run at the same time.
	@$(MAKE) --no-print-directory -j2 --output-sync=target loom build module
	@$(MAKE) --no-print-directory panics
	@$(MAKE) --no-print-directory suites

loom: ## the models of the mailbox, the workers and the sleep protocol, about two minutes
	$(CARGO) test --release --manifest-path tests/loom/Cargo.toml --target-dir '$(TARGET)/loom'

test-long: tools build module ## the soak tests of tests/long, each with a time limit
	$(CARGO) build --release --examples $(VENDORED)
	@LIO_BIN='$(BIN)' STOCK='$(STOCK)' MODULES='$(MODULES)' LUA54='$(LUA54)' bash tests/run.sh --long '$(ONLY)'

bench: build module ## runs all benchmarks, or SUITES='http net'; bench/README.md lists the required tools
	$(CARGO) build --release --examples $(VENDORED)
	LIO='$(BIN)' EXAMPLES='$(BIN_TARGET)/release/examples' LUA54='$(LUA54)' '$(BIN)' bench/run.lua $(SUITES)

.PHONY: book
# mdBook is no requirement of the tests: docs/ can be read without it.
book: ## the documentation as HTML, for which mdBook is needed: build/book/index.html
	$(LUA54) docs/book.lua build/book-source
	mdbook build build/book-source
	@echo 'built build/book/index.html'

install: build module ## into PREFIX: bin/lio, lib/lua/$(LUA)/lio.so
	install -d '$(DESTDIR)$(PREFIX)/bin' '$(DESTDIR)$(PREFIX)/lib/lua/$(LUA_VERSION)'
	install -m 755 '$(BIN)' '$(DESTDIR)$(PREFIX)/bin/lio'
	install -m 755 $(MODULES)/lio.so '$(DESTDIR)$(PREFIX)/lib/lua/$(LUA_VERSION)/lio.so'
	ln -sf lio.so '$(DESTDIR)$(PREFIX)/lib/lua/$(LUA_VERSION)/ltask.so'

clean: ## remove all built files
	$(CARGO) clean --target-dir '$(TARGET)'
	rm -rf build

help:
	@sed -n 's/^\([a-z-]*\):[^#]*## /make \1: /p' Makefile
