-- The cases of this folder. Each case runs in separate processes: with plain Lua in a stock interpreter, and with lio
-- in each host.
--
-- `case` is the function for lio, as FILE.NAME; `plain` is the function of switches.lua for plain Lua; `times` is the
-- number of repetitions. If `outside` is true, the case runs in the main chunk instead of a task (for plain Lua: a
-- coroutine). `most` is the target for the ratio of lio to plain Lua.

local MOST <const> = 1.3 -- the target for a resume/yield pair that does not wait

return {
  { name = "resume", what = "`resume` and `yield`, outside a task", case = "switches.resume", plain = "resume",
    times = 3000000, outside = true, most = MOST },
  { name = "resume_task", what = "  inside a task", case = "switches.resume", plain = "resume",
    times = 3000000, most = MOST },
  { name = "resume3", what = "  three coroutines deep in a task", case = "switches.resume3", plain = "resume3",
    times = 3000000, most = MOST },
  { name = "values", what = "  three values each way, in a task", case = "switches.values", plain = "values",
    times = 2000000, most = MOST },
  { name = "wrap", what = "the function of `wrap` and `yield`, outside a task", case = "switches.wrap", plain = "wrap",
    times = 3000000, outside = true, most = MOST },
  { name = "wrap_task", what = "  inside a task", case = "switches.wrap", plain = "wrap",
    times = 3000000, most = MOST },
  { name = "wrap3", what = "  three coroutines deep in a task", case = "switches.wrap3", plain = "wrap3",
    times = 3000000, most = MOST },
  { name = "items", what = "generator in a `for` loop, an item", case = "switches.items", plain = "items",
    times = 3000000, most = MOST },
  { name = "create", what = "new coroutine, resumed to its end", case = "switches.create", plain = "create",
    times = 1000000 },
  { name = "chain", what = "10 new coroutines inside each other, to their end", case = "switches.chain",
    plain = "chain", times = 100000 },
  { name = "wait0", what = "wait + wakeup, the task itself", case = "waits.wait0", plain = "resume", times = 2000000 },
  { name = "wait1", what = "  1 coroutine deep", case = "waits.wait1", plain = "resume", times = 2000000 },
  { name = "wait10", what = "  10 coroutines deep", case = "waits.wait10", plain = "resume", times = 2000000 },
  { name = "wait50", what = "  50 coroutines deep", case = "waits.wait50", plain = "resume", times = 2000000 },
  { name = "alone", what = "  in two tasks, with a turn of the loop for each", case = "waits.alone", plain = "resume",
    times = 400000 },
  { name = "waiting_items", what = "generator that waits once for each item, an item", case = "waits.items",
    plain = "items", times = 1000000 },
  { name = "deep_items", what = "  its consumer 9 coroutines deep", case = "waits.deep_items", plain = "items",
    times = 1000000 },
  { name = "waiting_chain", what = "10 new coroutines inside each other, one wait in the innermost",
    case = "waits.chain", plain = "chain", times = 100000 },
  { name = "spawn", what = "light thread that ends at once, spawn + wait", case = "threads.spawn", plain = "create",
    times = 500000 },
  { name = "spawn_wait", what = "  with one wait each", case = "threads.spawn_wait", plain = "create_yield",
    times = 500000 },
  { name = "scope", what = "scope of 10 threads with one wait each", case = "threads.scope", plain = "create_ten",
    times = 40000 },
  { name = "leave", what = "  left while all 10 wait", case = "threads.leave", plain = "close_ten", times = 40000 },
  { name = "timeout", what = "`thread.timeout` of what ends at once", case = "threads.timeout", plain = "create",
    times = 300000 },
  { name = "timeout_wait", what = "  of what waits for another task", case = "threads.timeout_wait",
    plain = "create_yield", times = 300000 },
  { name = "all", what = "`thread.all` of 10, of which 9 wait once", case = "threads.all", plain = "create_ten",
    times = 40000 },
  { name = "race", what = "`thread.race` of 10, of which 9 wait and the last ends at once", case = "threads.race",
    plain = "close_ten", times = 40000 },
}
