-- The part of the service library that most services never use; `ltask.NAME` finds it here.

local ltask = require "ltask"
local core = require "ltask.core"
local task = require "lio.task"
local require <const> = core.require_now

-- What checks arguments is loaded when a check fails or is rare.
local function misuse() return require "lio.misuse" end

local ROOT <const> = 1
local ERROR <const> = 3

local M = {}

-- What the Rust part calls in rare cases.
local hooks = {}
M.hooks = hooks

-- Errors --------------------------------------------------------------------------------------

local error_meta = {}

function error_meta:__tostring()
  local lines = { self.message }
  for _, hop in ipairs(self) do lines[#lines + 1] = hop end
  return table.concat(lines, "\n")
end

function error_meta.__concat(a, b)
  return tostring(a) .. tostring(b)
end

local function hop(co)
  local trace = co and debug.traceback(co, nil) or debug.traceback(nil, 4)
  return ("in service %d (%s), %s"):format(ltask.self(), ltask.label(), trace)
end

-- Adds a traceback, once: a coroutine that failed because its call did is where that call was.
local function add_hop(object, text)
  if object[#object] ~= text then object[#object + 1] = text end
end

local function text_of(err)
  if type(err) == "string" then return err end
  local ok, text = pcall(tostring, err)
  return ok and text or "(error object is a " .. type(err) .. " value)"
end

local function can_travel(value)
  local ok, pointer, size = pcall(ltask.pack, value)
  if ok then ltask.remove(pointer, size) end
  return ok
end

-- The error object of coroutine `co`, with this service's traceback added.
local function describe(co, err)
  local object
  if getmetatable(err) == error_meta then
    object = err
  else
    object = setmetatable({ message = text_of(err) }, error_meta)
    if type(err) ~= "string" and can_travel(err) then object.err = err end
  end
  add_hop(object, hop(co))
  return object
end

-- What a coroutine failed with, for who asked or for the log.
function hooks.failed(co, err, from, session)
  local object = describe(co, err)
  if session == 0 then
    local who = from ~= 0 and from ~= ltask.self() and " (a message from service " .. from .. ")" or ""
    ltask.log.error(tostring(object) .. who)
  end
  -- Without its metatable: that does not travel.
  return object
end

-- The error that an answer carried.
function hooks.refused(from, err)
  if type(err) == "table" then return setmetatable(err, error_meta) end
  if err == nil then return ("{service:%d} answered with an error"):format(from) end
  return err
end

-- Called in the coroutine whose call failed.
function hooks.raised(err)
  if getmetatable(err) == error_meta then add_hop(err, hop()) end
  return err
end

function hooks.unknown(name, from, session)
  local text = ("service %d (%s) has no request '%s'"):format(ltask.self(), ltask.label(), tostring(name))
  if session ~= 0 then return core.post(from, session, ERROR, text) end
  ltask.log.error(text .. ", sent by service " .. from)
end

-- An answer to a session that this service has never asked with.
function hooks.strange_answer() end

-- A request's coroutine was closed before it answered.
function hooks.forgotten(name, from)
  local f = ltask.dispatch()[name]
  local info = type(f) == "function" and debug.getinfo(f, "S")
  ltask.log.error(("service %d (%s): the request '%s' of service %d ended without an answer; its handler is at %s")
    :format(ltask.self(), ltask.label(), name, from, info and info.short_src .. ":" .. info.linedefined or "?"))
end

-- The main loop raised, for want of memory or because of corrupt bytes: the request at hand is answered.
function hooks.recover(err)
  local from, session = core.recover(err)
  if from == true then return end
  if session then
    core.post(from, session, ERROR, ("service %d: %s"):format(ltask.self(), tostring(err)))
  else
    ltask.log.error(tostring(err))
  end
end

local function post_error(call, addr, session, err)
  local ok, problem = pcall(core.post, addr, session, ERROR, err)
  if not ok then misuse().relay(call, problem) end
end

-- `ltask.raise_error(addr, session, message)`: answers a request with an error.
function M.raise_error(addr, session, message)
  if session == 0 then
    ltask.log.error(text_of(message))
    return
  end
  post_error("raise_error", addr, session, describe(nil, message))
end

-- `ltask.error(addr, session, err)`: the same with an error object, as it is.
function M.error(addr, session, err)
  if session ~= 0 then post_error("error", addr, session, err) end
end

-- The service itself --------------------------------------------------------------------------

local function log(level)
  return function(...)
    local list = table.pack(...)
    for i = 1, list.n do list[i] = tostring(list[i]) end
    core.log(level, table.concat(list, "\t", 1, list.n))
  end
end

-- `ltask.log.info(…)`, `ltask.log.error(…)`: a line of the log.
M.log = { info = log "info", error = log "error" }

-- Root's services -----------------------------------------------------------------------------

local function settle(call, ok, ...)
  if ok then return ... end
  local err = ...
  -- Root's errors are objects; what is wrong with the call itself is an error of the program's line.
  if type(err) ~= "string" or err:find "^{service:" then error(err, 0) end
  misuse().relay(call, (err:gsub("call: cannot wait", call .. ": cannot wait", 1)))
end

-- No tail call follows: the traceback of an error names the call.
local function ask_root(call, ...)
  return settle(call, pcall(ltask.call, ROOT, call, ...))
end

local function check_name(call, name)
  if type(name) ~= "string" then misuse().argument(call, 1, "string", name) end
end

-- It is the label as well.
local function check_service(call, name)
  check_name(call, name)
  if not utf8.len(name) then misuse().bad(call, 1, "not valid UTF-8") end
end

local FIELDS <const> = {
  label = "string", source = "string", initfunc = "string", chunkname = "string", worker_id = "integer",
}

-- As Lua converts numbers and texts.
local function is_kind(kind, value)
  if kind == "integer" then return math.tointeger(tonumber(value)) ~= nil end
  return type(value) == kind or type(value) == "number"
end

local function wrong_field(name, kind, value)
  local got = math.type(value) or type(value)
  misuse().bad("spawn_service", 1, ("field '%s': %s expected, got %s"):format(name, kind, got))
end

-- `ltask.spawn(name, …)` → the new service's address. The arguments are those of its file.
function M.spawn(name, ...)
  check_service("spawn", name)
  return (ask_root("spawn", name, ...))
end

-- `ltask.spawn_service{ name=, args=, worker_id=, source=, chunkname=, label= }` → address.
function M.spawn_service(t)
  if type(t) ~= "table" then misuse().argument("spawn_service", 1, "table", t) end
  if type(t.name) ~= "string" then wrong_field("name", "string", t.name) end
  for name, kind in pairs(FIELDS) do
    local value = t[name]
    if value ~= nil and not is_kind(kind, value) then wrong_field(name, kind, value) end
  end
  if not utf8.len(t.label or t.name) then misuse().bad("spawn_service", 1, "the label is not valid UTF-8") end
  return (ask_root("spawn_service", t))
end

-- `ltask.uniqueservice(name, …)` → the address of the one service of that name, spawned if need be.
function M.uniqueservice(name, ...)
  check_service("uniqueservice", name)
  return (ask_root("uniqueservice", name, ...))
end

-- `ltask.queryservice(name)` → its address; waits until there is one.
function M.queryservice(name)
  check_name("queryservice", name)
  return (ask_root("queryservice", name))
end

-- `ltask.register(name)`: makes this service known under `name`.
function M.register(name)
  check_name("register", name)
  ask_root("register", name)
end

-- `ltask.kill(addr)` → whether there was such a service; it quits.
function M.kill(addr)
  return (ask_root("kill", addr))
end

-- `ltask.servicepath([path])` → the path in force; sets it for all spawns to come.
function M.servicepath(path)
  if path ~= nil then check_name("servicepath", path) end
  return (ask_root("servicepath", path))
end

-- Requests ------------------------------------------------------------------------------------

-- `ltask.current_session()` → `{ from=, session= }` of the request that this coroutine answers.
function M.current_session()
  local from, session = core.current()
  return { from = from, session = session }
end

-- `ltask.current_token()` → what `wait` without a token waits on.
function M.current_token()
  return (coroutine.running())
end

-- `ltask.suspend(session, co_or_f)`: when that session is answered, the coroutine (which waits) goes on
-- with type, message and size as `wait`'s results, or the function is called with them.
function M.suspend(session, what)
  if not math.tointeger(session) then misuse().argument("suspend", 1, "session", session) end
  if type(what) ~= "thread" and type(what) ~= "function" then misuse().check_function("suspend", 2, what) end
  task.fork(function()
    local result = table.pack(pcall(core.await, session))
    local kind = result[1] and 2 or ERROR
    local pointer, size = ltask.pack(table.unpack(result, 2, result.n))
    if type(what) == "thread" then
      task.wakeup(what, kind, pointer, size)
    else
      what(kind, pointer, size)
    end
  end)
end

-- The handlers of this coroutine's wait in common: several coroutines on one token.
local shared = {}

-- `ltask.multi_wait([token])`: as `wait`, and others may wait on the token as well.
function M.multi_wait(token)
  token = token == nil and coroutine.running() or token
  if token ~= token then misuse().raise("multi_wait: the token is not a number") end
  local list = shared[token]
  if not list then
    list = {}
    shared[token] = list
  end
  local place = {}
  list[#list + 1] = place
  return task.wait(place)
end

local function each(token, f, ...)
  local list = shared[token]
  if not list then return nil end
  shared[token] = nil
  for _, place in ipairs(list) do f(place, ...) end
  return true
end

-- `ltask.multi_wakeup(token, …)` → true; nil when nobody waits.
function M.multi_wakeup(token, ...)
  return each(token, task.wakeup, ...)
end

-- `ltask.multi_interrupt(token, err)` → true; nil when nobody waits. Each wait raises `err`.
function M.multi_interrupt(token, err)
  return each(token, task.interrupt, err)
end

-- `ltask.dispatch_wakeup()` (G1): runs the coroutines that were woken or forked.
function M.dispatch_wakeup()
  if task.current() then misuse().raise("dispatch_wakeup: called from inside a task") end
  while task.run_ready() do end
end

local on_main = 0 -- coroutines that want the main thread

-- `ltask.mainthread_run(f, …)` → what `f` returned: `f` runs on the process's main thread (G2).
function M.mainthread_run(f, ...)
  if type(f) ~= "function" then misuse().check_function("mainthread_run", 1, f) end
  on_main = on_main + 1
  ltask.mainthread_enter()
  -- The next slice is there.
  ltask.sleep(0)
  local result = table.pack(xpcall(f, debug.traceback, ...))
  on_main = on_main - 1
  if on_main == 0 then
    ltask.mainthread_leave()
    ltask.sleep(0)
  end
  if not result[1] then error(result[2], 0) end
  return table.unpack(result, 2, result.n)
end

-- `ltask.thread_info(co)` → the coroutine's status and where it is.
function M.thread_info(co)
  if type(co) ~= "thread" then misuse().argument("thread_info", 1, "coroutine", co) end
  return debug.traceback(co, coroutine.status(co))
end

-- What `ltask.call(addr, "tasks")` asks: `lio.tasks`, without the coroutines, which do not travel.
function hooks.tasks()
  local list = require "lio.tasks"()
  for _, one in ipairs(list) do one.thread = nil end
  return list
end

-- What `ltask.syscall(addr, "inspect", what)` asks: "memory" (bytes), "traceback", "counts".
function hooks.inspect(what)
  if what == "memory" then return collectgarbage "count" * 1024 end
  if what == "counts" then return ltask.mem_count() end
  local list = { ltask.backtrace() }
  for _, one in ipairs(hooks.tasks()) do list[#list + 1] = one.traceback end
  return table.concat(list, "\n")
end

-- What `ltask.syscall(addr, "watch")` asks: it is not answered, so it ends with an error when this service
-- dies. It does not keep the service alive.
hooks.watches = {}
function hooks.watch()
  local token = {}
  -- Who waits for what nobody refers to would be lost.
  hooks.watches[token] = true
  core.watch(1)
  local done <close> = setmetatable({}, {
    __close = function()
      hooks.watches[token] = nil
      core.watch(-1)
    end,
  })
  ltask.wait(token)
  return done
end

for _, name in ipairs { "async", "request", "parallel" } do
  M[name] = function(...)
    return require "ltask.request"[name](...)
  end
end

return M
