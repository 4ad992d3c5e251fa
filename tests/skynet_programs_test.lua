-- Boots each program tests/skynet/*.lua with `skynet.start` in its own process, with one worker and with two. A program
-- must log the same lines as in skynet.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

local folder = t.root .. "tests/skynet/"

-- Returns the entries of a log, as a list for each service id. An entry is the message, after the level if the level is
-- not INFO. Further lines of an entry, such as tracebacks, are left out.
local function entries(text)
  local all = {}
  local list
  for line in text:gmatch "[^\n]+" do
    local level, id, rest = line:match "^%[[%d: .-]+%]%[(%u+)%]%((%d+) [%w_.]+%) (.*)$"
    if id then
      id = tonumber(id)
      all[id] = all[id] or {}
      list = all[id]
      list[#list + 1] = (level == "INFO" and "" or level .. " ") .. rest:gsub("> %d+%.%d+ ", "> "):gsub("@%S+/", "@")
    end
  end
  return all
end

-- Boots tests/skynet/NAME.lua. Returns the log's entries on standard output, and those on standard error.
local function run(name, workers)
  local r = kit.program(table.concat {
    "local config = { start = ", kit.literal(name), ", thread = ", workers, ", luaservice = ",
    kit.literal(folder .. "?.lua"), " }\n",
    "config.lua_path, config.lua_cpath = package.path, package.cpath\n",
    "os.exit(require 'skynet.start' (config), true)\n",
  })
  t.eq(r.code, 0, "exit code; it printed\n" .. r.out .. r.err)
  return entries(r.out), entries(r.err)
end

-- Adds one test for each number of workers. `out` maps the id of each service to its expected entries: the program's
-- first service is 3, the services that it creates are 4, 5, …. `err` contains patterns for the beginning of each
-- error.
local function program(name, sentence, out, err)
  for _, workers in ipairs(kit.workers) do
    t.test(("%s: %s [%d worker%s]"):format(name, sentence, workers, workers > 1 and "s" or ""), function()
      local said, failed = run(name, workers)
      t.eq(said, out, "information")
      for id, list in pairs(failed) do
        for i, line in ipairs(list) do
          local pattern = "^ERROR " .. (err and err[id] and err[id][i] or "nothing more of service " .. id)
          t.ok(line:find(pattern), ("%s does not match %s"):format(t.show(line), t.show(pattern)))
        end
      end
      for id, list in pairs(err or {}) do
        t.eq(#(failed[id] or {}), #list, "number of errors from service " .. id)
      end
    end)
  end
end

program("callret", "ret answers a call once, with values of all types", {
  [3] = {
    "0",
    "3\tnil\tfalse\tnil",
    "3\t1\t2.5\ta\0b",
    "{1 2, k = v}",
    "{x y, k = true}",
    "nothing\t0",
    "true",
    "true\tAnn",
    "false\tret: no session: this coroutine is not handling a request, or has already answered it",
    "false\tcall: no protocol 'tea' is registered",
  },
  [4] = {
    "sent\t2\t1\tnil",
    "ret\tfalse",
    "again\tfalse\tret: no session: this coroutine is not handling a request, or has already answered it",
    "answers\ttrue",
    "goes on\tx",
    "a second answer\tfalse\tret: no session: this coroutine is not handling a request, or has already answered it",
  },
})

program("response", "response() answers each call once, later and in any order", {
  [3] = {
    "Bob\tgot\ttrue\tfor Bob\t2",
    "Ann\tgot\tfalse\tan error\tnil",
    "Cid\tgot\ttrue\tCid\tfor Cid",
  },
  [4] = {
    "Ann\tstill wanted:\ttrue",
    "Bob\tstill wanted:\ttrue",
    "after response:\tfalse\tret: no session: this coroutine is not handling a request, or has already answered it",
    "Bob\ttaken:\ttrue",
    "Bob\tstill wanted:\tfalse",
    "Bob\tagain:\tfalse\tresponse: this request has already been answered",
    "Ann\ttaken:\ttrue",
    "Ann\tstill wanted:\tfalse",
    "Ann\tagain:\tfalse\tresponse: this request has already been answered",
    "Cid\ttaken:\ttrue",
    "Cid\tstill wanted:\tfalse",
    "Cid\tagain:\tfalse\tresponse: this request has already been answered",
    "Eve\tstill wanted:\tfalse",
    "Eve\ttaken:\tfalse",
  },
})

program("fork", "forks run in order, after the message's handler and the coroutines that it has woken", {
  [3] = {
    "first the message",
    "fork\t1\tnil",
    "fork\t2\tnil",
    "fork\t3\tnil",
    "then the forks",
    "a",
    "b",
    "a's own",
    "message",
    "woken\tx",
    "woken\ty",
    "fork 1",
    "fork 1 has woken z",
    "woken\tz",
    "fork 2",
    "fork 3",
    "true",
    "and this one runs",
    "false\tbad argument #1 to 'fork' (function expected, got number)",
  },
}, { [3] = { ".*this fork fails" } })

program("sleep", "sleep returns BREAK when it is woken, and woken coroutines run in order after the waker", {
  [3] = {
    "slept",
    "yielded",
    "wakeup\ttrue\ttrue\ttrue",
    "not inside the waker",
    "woken\tBREAK",
    "by token\tBREAK",
    "wait\t0",
    "nobody\tnil\tnil",
    "order\t2",
    "order\t4",
    "order\t1",
    "order\t3",
    "broken off\tBREAK",
    "its next sleep",
    "true\ttrue",
    "once",
    "twice",
    "nobody",
    "all\t100",
  },
})

program("timeout", "the functions of timers run in the order of their times, and may wait", {
  [3] = {
    "set",
    "at once\tin time",
    "first, and waits",
    "second\tin time",
    "third\tin time",
    "fourth\tin time",
    "the next one runs",
    "false\tbad argument #2 to 'timeout' (function expected, got nil)",
  },
}, { [3] = { ".*timeout%.lua:%d+: a timer's function fails" } })

program("queue", "critical sections run one after another, even if a section waits or fails", {
  [3] = {
    "task 1\tin", "task 1\tout", "task 1\t3",
    "task 2\tin", "task 2\tout", "task 2\t1",
    "task 3\tin", "task 3\tout", "task 3\t2",
    "task 4\tin", "task 4\tout", "task 4\t0",
    "results\t1\tnil\t3\tnil",
    "outer\tinner\tinnermost",
    "false\tfails inside",
    "after the error",
    "the other queue is free",
    "leaves",
    "this one is not",
    "good\ttrue",
    "bad\tfalse",
    "better\ttrue",
    "free at the end",
  },
}, { [3] = { "error in a request from :00000003, session %d+: .*queue%.lua:%d+: bad request" } })

program("forgotten", "a forgotten response is logged with its handler's file and line, and its caller waits", {
  [3] = {
    "forget\tbegins",
    "ignore\tbegins",
    "no mistake",
    "still waiting\t2",
    "forget: false {service:4} is dead",
    "ignore: false {service:4} is dead",
  },
}, {
  [4] = { "a response was forgotten: session %d+ from :00000003; the handler of 'lua' is at .*forgotten%.lua:28$" },
})

local here <const> = ".*errors%.lua:"
program("errors", "an error in a handler is raised in the caller, and the handler's service logs it", {
  [3] = {
    "false\tno luck",
    "false\tfar away",
    "false\tattempt to index a nil value (field 'no_such_field')",
    "false\tUnsupport type thread to serialize",
    "false\tattempt to call a nil value (field '?')",
    "answered",
    "alive",
    "false\ttrue",
  },
}, {
  [4] = {
    "error in a request from :00000003, session %d+: " .. here .. "11: no luck",
    "error in a request from :00000005, session %d+: " .. here .. "11: far away",
    "error in a request from :00000003, session %d+: " .. here .. "25: attempt to index",
    "error in a request from :00000003, session %d+: .*Unsupport type thread",
    "error in a request from :00000003, session %d+: " .. here .. "%d+: attempt to call a nil value",
    here .. "20: after the answer",
    here .. "11: nobody asked",
  },
  [5] = { "error in a request from :00000003, session %d+: " .. here .. "11: far away" },
})

program("dead", "a caller that waits for a service gets an error when the service ends", {
  [3] = {
    "asked to exit:\t{service:N} is dead",
    "pending:\t{service:N} is dead",
    "dead:\t{service:N} is dead",
    "sent:\tfalse",
    "answers first:\tbye",
    "kill:\ttrue",
    "killed:\t{service:N} is dead",
    "never there:\t{service:N} is dead",
    "no such name:\tcall: there is no service '.nobody'",
    "short:\tinteger",
    "broken:\tdoes not start",
  },
  [4] = { "its variables are closed" },
  [6] = { "its variables are closed" },
  [8] = { "a service for a moment" },
}, { [9] = { "the service could not start: .*dead%.lua:%d+: does not start" } })

program("unique", "a unique service is created once, and a name is free when its service has ended", {
  [3] = {
    "the query is answered",
    "true\ttrue\ttrue",
    "true\ttrue",
    "true",
    "not yet:\tnil",
    "true\ttrue",
    "true\tfalse\tthere is no service '.other'",
    "true\ttrue",
    "false\tis taken",
    "false",
    "gone:\tnil",
    "another:\ttrue",
    "false\tnot today",
    "false\tnot today",
  },
  [4] = { "begins\tslave\t1", "has begun" },
  [6] = { "begins\tslave", "has begun" },
}, { [7] = { "the service could not start: .*broken%.lua:%d+: not today" } })

local one <const> = "<TRACE :00000003-1> "
program("trace", "a trace follows a request from service to service", {
  [3] = {
    "before\tnil\tnil",
    one .. "trace begin",
    "a tag of this service:\ttrue",
    one .. "call @trace.lua:27",
    one .. "resume",
    "the same far away:\ttrue",
    one .. "sleep",
    one .. "resume",
    one .. "call @trace.lua:29",
    "an error:\tfalse",
    "another coroutine:\tnil\tnil",
    "<TRACE :00000003-2> trace",
    "its own:\ttrue",
  },
  [4] = { one .. "request", one .. "response", one .. "end", one .. "request", one .. "error" },
  [5] = { one .. "request", one .. "call @trace.lua:13", one .. "resume", one .. "response", one .. "end" },
}, { [4] = { "error in a request from :00000003, session %d+: .*trace%.lua:%d+: followed" } })

program("nested", "a coroutine of the program may wait", {
  [3] = {
    "1 2 3 4 5 6 7",
    "6 21 45 78 120\ttrue",
    "waits\twaiting\tfalse\tcannot resume a coroutine that is waiting",
    "true",
    "inner\tBREAK",
    "true",
    "inner, by token\tBREAK",
    "true\touter",
    "dead",
    "false\ttable",
    "false\tcannot wait here",
    "4",
  },
}, { [4] = { "error in a request from :00000003, session %d+: .*nested%.lua:%d+: .*bad 'for' initial value" } })

local function overload(n)
  return "May overload, message queue length = " .. n .. "$"
end
program("overload", "the log reports when a mailbox exceeds 1024, 2048, … messages, and again after it was empty", {
  [3] = {
    "flood\t1500\thandled\t1499", "flood\t1024\thandled\t2522", "flood\t3000\thandled\t5521",
    "flood\t4000\thandled\t9520", "flood\t2590\thandled\t12109", "flood\t3102\thandled\t15210", "unread\t0",
  },
}, { [4] = { overload(1500), overload(3000), overload(4000), overload(2590), overload(3102) } })

program("select", "answers and errors from several calls are returned as they arrive, until the timeout", {
  [3] = {
    "fast\t0\tnil", "medium\t6\tthe second", "slow\t12\tnil",
    "token 1\t1\t1", "token 2\t2\t1", "over\ttrue",
    "error\tfailed", "ping\tfine",
    "outer\tinner", "over\tnil",
    "its end\tfalse", "its end\tfalse",
  },
}, { [4] = { "error in a request from :00000003, session %d+: .*select%.lua:17: an error on request" } })

program("coroutine", "waiting coroutines have the status blocked, and the profile does not count their waits", {
  [3] = {
    "main\ttrue",
    "false\tcannot resume non-suspended coroutine",
    "step\tbegin",
    "inside\tfalse",
    "follower\tblocked\tfalse\tcannot resume a coroutine that is waiting",
    "number\t1",
    "number\t2",
    "step\tend",
    "follower\tsuspended",
    "follower resumes\ttrue\t3",
    "follower resumes\ttrue\t4",
    "follower resumes\ttrue\tnil",
    "time\ttrue\ttrue",
    "step",
    "false\tstop: this coroutine is not being measured; call start first",
  },
})

program("killthread", "a killed coroutine does not run again, and its caller gets an error", {
  [3] = {
    "begun\ttrue",
    "waiting\t3",
    "true\tdead", "true\tdead", "true\tdead",
    "waiting\t0\tnil",
    "the service lives\techo",
    "asked\tfalse\tthe request's coroutine was closed before it answered",
    "worker\t1\ttrue\tnil",
  },
  [4] = { "the worker ends" },
}, {
  [4] = { "a request from :00000003 was closed before it was answered; the handler of 'lua' is at .*thread%.lua:28$" },
})

program("service", "a service that runs a function is found by its name until it is closed", {
  [3] = {
    "before it is there\tnil",
    "then\t1",
    "once\ttrue\ttrue",
    "nil\tvalue",
    "close\ttrue\tfalse",
    "false\tbad argument #2 to 'new' (the function runs in another VM and must not refer to the local 'service')",
    "another\ttrue\tagain\tnil",
  },
  [6] = { "the store begins\tstore" },
  [7] = { "the store begins\tstore" },
})

t.finish()
