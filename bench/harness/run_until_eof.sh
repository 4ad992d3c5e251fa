# sh run_until_eof.sh LOG COMMAND: runs a simple command until standard input ends, and then stops all processes of the
# command's process group. process.lua starts this script in a new session and keeps the other end of the pipe open, so
# the processes also end if the caller is killed or if Ctrl-C is pressed. The file LOG gets the command's output, the
# file LOG.pid the id of its process group.

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
