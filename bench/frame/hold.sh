# sh hold.sh LOG COMMAND: runs a simple command until standard input ends, then stops it and all it started. Called by
# process.lua as the leader of a session: neither Ctrl-C nor the death of the caller by any other means leaves
# something behind. LOG gets what the command prints, LOG.pid the number of its process group.

ulimit -n "$(ulimit -Hn)"
log=$1
setsid sh -c "exec $2" >"$log" 2>&1 </dev/null &
pid=$!
echo "$pid" >"$log.new" && mv "$log.new" "$log.pid"

ended() {
  read -r stat 2>/dev/null <"/proc/$pid/stat" || return 0
  case $stat in *') Z '*) return 0 ;; esac
  return 1
}

read -r _
kill -TERM "-$pid" 2>/dev/null
tries=0
until ended || [ "$tries" = 100 ]; do
  tries=$((tries + 1))
  sleep 0.02
done
kill -KILL "-$pid" 2>/dev/null
exit 0
