#!/usr/bin/env bash
# Rounds of tests/chaos with several seeds, then every kind of sabotage, which the ledger must report. Needs root; see
# tests/chaos/README.md. Takes at most 12 minutes. CHAOS_SHORT=1: one round with a fixed seed, at most 60 s.
# CHAOS_SEEDS="1 2" and CHAOS_SECONDS=60 choose other rounds, without sabotage.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

run=tests/chaos/run.sh passed=0 failed=0
seconds=${CHAOS_SECONDS:-25}
limit=$((seconds + 120))
sabotages='forget twice upload answer wrong gap service descriptor task timer stuck'
if [ -n "${CHAOS_SHORT:-}" ]; then
  seeds=20 seconds=12 limit=60 sabotages=
elif [ -n "${CHAOS_SEEDS:-}" ]; then
  seeds=$CHAOS_SEEDS sabotages=
else
  seeds="1 2 3 4 $(od -An -N4 -tu4 /dev/urandom) $(od -An -N4 -tu4 /dev/urandom)"
  export CHAOS_TIMED=1
fi

# Adds the numbers of the last line of a round.
add() {
  local p=0 f=1
  read -r p _ f _ <<<"$(grep -E '^[0-9]+ passed, [0-9]+ failed$' <<<"$1" | tail -n 1)"
  passed=$((passed + ${p:-0})) failed=$((failed + ${f:-1}))
}

for seed in $seeds; do
  output=$(timeout -k 5 "$limit" "$run" --seed "$seed" --seconds "$seconds" 2>&1)
  echo "$output"
  add "$output"
done

# A sabotage is reported by a line that contains its words.
declare -A words=(
  [forget]='acknowledged count .* is lost' [twice]='happened 2 times' [upload]='acknowledged upload .* is lost'
  [answer]='bytes after the last answer|another content|belongs to another' [wrong]='another content' [gap]='event [0-9]* is'
  [service]='services: ' [descriptor]='descriptors: ' [task]='tasks: ' [timer]='timers: ' [stuck]='timeout'
)
for sabotage in $sabotages; do
  output=$(timeout -k 5 90 "$run" --seed 1 --seconds 2 --sabotage "$sabotage" 2>&1)
  if grep -qE "^FAILED: .*(${words[$sabotage]})" <<<"$output"; then
    passed=$((passed + 1))
    echo "sabotage $sabotage: reported"
  else
    failed=$((failed + 1))
    printf '%s\n' "FAILED: sabotage $sabotage: not reported" "$output"
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
