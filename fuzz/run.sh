#!/usr/bin/env bash
# Runs a fuzzer that `make fuzzers` has built: fuzz/run.sh NAME SECONDS [OPTION...]. OPTION is an option of libFuzzer. The
# run starts with the seeds and with what earlier runs have found (fuzz/corpus); a failing input is kept in
# fuzz/artifacts. An input that takes more than a minute and an allocation of more than 32 MiB are failures, too.
set -euo pipefail
cd "$(dirname "$0")"
name=$1 seconds=$2
shift 2
mkdir -p "corpus/$name" "artifacts/$name"
ASAN_OPTIONS=detect_odr_violation=0 exec "target/$(rustc -vV | sed -n 's/^host: //p')/release/$name" \
  -artifact_prefix="artifacts/$name/" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=1024 -malloc_limit_mb=32 \
  -max_len=8192 "$@" "corpus/$name"
