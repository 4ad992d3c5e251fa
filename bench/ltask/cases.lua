-- The cases of this folder. Each case runs in a separate process, and fills one or more rows of the table.
--
-- `case` is a file of the folder case, `values` are the arguments of child.lua, and `rows` has rows of the form
-- { what, figure, unit, least or most = target }. A `rate` is also shown as CPU time, and as the number of plain
-- coroutine switches that take the same time in the same process. The targets are for an idle machine with 2 cores.

-- Returns a ping-pong case with these values. `more` is a list of additional rows.
local function pingpong(name, values, what, more)
  local rows = { { what, "rate", "/s", least = 600000 } }
  for _, row in ipairs(more or {}) do rows[#rows + 1] = row end
  return { name = name, case = "pingpong", values = values, rows = rows }
end

-- Returns a case of calls with skynet's API to `service`. `command` selects how the service responds.
local function skynet_call(name, service, command, what)
  return { name = name, case = "skynet_call", values = { "worker=1", "to=" .. service, "command=" .. command }, rows = {
    { what, "rate", "/s" },
  } }
end

local SWITCHES <const> = { "  thread switches per call", "switches", "", most = 0.01 }

return {
  pingpong("pingpong1", { "worker=1" }, "ping-pong `call`, 1 worker", { SWITCHES }),
  pingpong("pingpong2", { "worker=2" }, "ping-pong `call`, 2 workers", { SWITCHES }),
  { name = "fanin1", case = "fanin", values = { "worker=1", "full=wait" }, rows = {
    { "8 senders × 100,000 `send` to one sink, 1 worker", "rate", "/s", least = 1200000 },
    { "  messages lost", "lost", "", most = 0 },
    { "  out of order", "wrong", "", most = 0 },
    { "  resident growth", "growth", "KiB" },
  } },
  { name = "fanin2", case = "fanin", values = { "worker=2", "full=wait" }, rows = {
    { "8 senders × 100,000 `send` to one sink, 2 workers", "rate", "/s", least = 1200000 },
    { "  messages lost", "lost", "", most = 0 },
    { "  out of order", "wrong", "", most = 0 },
    { "  resident growth", "growth", "KiB" },
    { "  queue high-water", "queue_max", "", most = 4096 },
  } },
  { name = "callers1", case = "callers", values = { "worker=1" }, rows = {
    { "100 coroutines × 2,000 `call` to 8 services, 1 worker", "rate", "/s", least = 600000 },
  } },
  { name = "callers2", case = "callers", values = { "worker=2" }, rows = {
    { "100 coroutines × 2,000 `call` to 8 services, 2 workers", "rate", "/s", least = 600000 },
  } },
  { name = "spawn", case = "spawn", values = { "worker=2" }, rows = {
    { "spawn + quit, one after another", "rate", "/s", least = 8000 },
    { "  resident growth over all", "growth", "KiB" },
  } },
  { name = "spawn8", case = "spawn", values = { "worker=2", "width=8" }, rows = {
    { "spawn + quit, 8 at a time", "rate", "/s", least = 8000 },
  } },
  { name = "memory", case = "memory", values = { "worker=2" }, rows = {
    { "idle service, resident", "resident", "KiB", most = 40 },
    { "  its VM by `stat`", "vm", "KiB", most = 40 },
  } },
  { name = "wakeup", case = "wakeup", values = { "worker=2" }, rows = {
    { "wait + wakeup pair", "rate", "/s", least = 2500000 },
  } },
  { name = "fork", case = "fork", values = { "worker=2", "batch=100" }, rows = {
    { "fork, batches of 100", "rate", "/s", least = 1400000 },
  } },
  { name = "fork20k", case = "fork", values = { "worker=2", "batch=20000" }, rows = {
    { "fork, batches of 20,000", "rate", "/s", least = 1400000 },
  } },
  { name = "timers", case = "timers", values = { "worker=2" }, rows = {
    { "100,000 `timeout`s over 1 s: early", "early", "", most = 0 },
    { "  late, p50", "p50", "ms" },
    { "  late, p99", "p99", "ms", most = 10 },
    { "  late, max", "max", "ms" },
    { "  set", "set", "/s" },
  } },
  { name = "timers1", case = "timers", values = { "worker=2", "first=1" }, rows = {
    { "  the first due while the last are set: early", "early", "", most = 0 },
    { "  late, p99", "p99", "ms" },
  } },
  { name = "pack", case = "pack", values = {}, rows = {
    { "`pack` + `unpack_remove`", "rate", "/s", least = 1600000 },
  } },
  { name = "quiet", case = "quiet", values = { "worker=2" }, rows = {
    { "100 idle services for 5 s: CPU", "cpu", "ms", most = 10 },
    { "  thread switches", "switches", "", most = 10 },
    { "  thread switches in the second after activity", "tail", "" },
  } },
  { name = "sends", case = "sends", values = { "worker=2", "queue=200000" }, rows = {
    { "one sender with room for all", "rate", "/s" },
    { "  its resumes in 100,000 sends", "resumes", "", most = 5 },
  } },
  pingpong("idle2", { "worker=2", "idle=2" }, "ping-pong beside 2 idle services"),
  pingpong("idle2k", { "worker=2", "idle=2000" }, "ping-pong beside 2,000 idle services"),
  pingpong("idle20k", { "worker=2", "idle=20000" }, "ping-pong beside 20,000 idle services"),
  pingpong("blocked", { "worker=1", "blocked=10" }, "ping-pong beside 10 that block on descriptors, 1 worker"),
  { name = "slow", case = "fanin", values = {
    "worker=2", "full=wait", "queue=64", "senders=4", "messages=50000", "pause_every=2000", "pause_ms=5",
  }, rows = {
    { "4 fast senders, slow sink, queue of 64", "rate", "/s" },
    { "  messages lost", "lost", "", most = 0 },
    { "  out of order", "wrong", "", most = 0 },
    { "  resident growth", "growth", "KiB", most = 1024 },
    { "  queue high-water", "queue_max", "", most = 64 },
  } },
  { name = "burst", case = "burst", values = { "worker=2" }, rows = {
    { "1,000 messages to a service in its event wait: writes", "writes", "" },
    { "  writes per wakeup", "per_wake", "", most = 1.02 },
    { "  messages lost", "lost", "", most = 0 },
  } },
  { name = "linger", case = "burst", values = { "worker=2", "linger=20" }, rows = {
    { "the same, busy elsewhere for 20 ms: writes", "writes", "", most = 1.1 },
    { "  messages lost", "lost", "", most = 0 },
  } },
  skynet_call("skynet_ret", "skynet_echo", "ret", "`skynet.call`, answered by `ret(pack(…))`"),
  skynet_call("skynet_retpack", "skynet_echo", "retpack", "`skynet.call`, answered by `retpack`"),
  skynet_call("skynet_native", "ltask_echo", "x", "`skynet.call` to an ltask service"),
  { name = "skynet_new", case = "spawn", values = { "worker=2", "skynet=1" }, rows = {
    { "`newservice` + `exit`, one after another", "rate", "/s" },
  } },
  { name = "skynet_memory", case = "memory", values = { "worker=2", "skynet=1" }, rows = {
    { "idle skynet service, resident", "resident", "KiB" },
    { "  its VM by `stat`", "vm", "KiB" },
  } },
}
