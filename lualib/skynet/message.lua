-- Skynet's messages on the scheduler's requests: handlers, `call`, `send` and `ret`. Called through
-- lualib/skynet.lua.
--
-- A message of a protocol is a request by the protocol's name. With skynet's own `pack` and `unpack`, as "lua" has
-- them, the values travel as the request's arguments, so that services without skynet's words ask and answer as
-- well. With other functions the request has one argument, the string that `pack` made.
--
-- Invariant: a request is answered once. While nobody answered it, its task's tag has a session; `ret` and
-- `response` take that out. An error of the handler is answered by the scheduler, as long as it is there.

local ltask = require "ltask"
local core = require "ltask.core"
local boot = require "skynet.boot"

local ltask_call <const>, ltask_send <const> = ltask.call, ltask.send
local post <const>, current <const>, no_response <const> = core.post, core.current, ltask.no_response
local this_task <const> = require "lio.task".current

local ROOT <const> = 1
local RESPONSE <const> = 2

local M = {}

local lua <const> = { name = "lua", id = 10, pack = ltask.pack, unpack = ltask.unpack }

-- By name and by number: the protocols, and the names of those whose values travel as they are.
local debug_protocol <const> = { name = "debug", id = 9, pack = ltask.pack, unpack = ltask.unpack }
local protocols <const> = { lua = lua, [lua.id] = lua, debug = debug_protocol, [debug_protocol.id] = debug_protocol }
local plain <const> = { lua = "lua", [lua.id] = "lua", debug = "debug", [debug_protocol.id] = "debug" }
M.protocols, M.plain = protocols, plain

-- The module skynet.protocol, once there is a protocol with functions of its own.
M.strings = false

local weak <const> = { __mode = "k" }
-- Tasks that handle a message which nobody waits for, until they answer it. A task is meant by its own coroutine,
-- also where a coroutine of the handler's making runs.
local unasked <const> = setmetatable({}, weak)
-- Tasks that handle a request of a protocol with functions of its own.
local strings <const> = setmetatable({}, weak)

-- The protocol of that name or number; raises in the name of `call`.
local function protocol(which, call)
  local p = protocols[which]
  if not p then error(("%s: no protocol '%s' is registered"):format(call, tostring(which)), 3) end
  return p
end
M.protocol = protocol

-- Handlers ------------------------------------------------------------------------------------

-- The request that was answered last: for most handlers, that is the one that they had to answer.
local answered_from, answered_session

local function forgotten(...)
  return require "skynet.unhandled".forgotten(...)
end

local function handle(p, from, session, ...)
  local co = this_task()
  if session == 0 then
    unasked[co] = true
  elseif boot.trace then
    boot.trace.begin(from, p)
  end
  if plain[p.name] then
    p.dispatch(session, from, ...)
  else
    strings[co] = true
    p.dispatch(session, from, M.strings.from_string(p, (...)))
    strings[co] = nil
  end
  local _, left = current()
  if left ~= 0 then forgotten(p, from, left) end
  unasked[co] = nil
  if boot.trace then boot.trace.finish() end
end

local function handler(p)
  local is_plain <const> = plain[p.name]
  return function(...)
    local from, session = current()
    if session == 0 or boot.trace or not is_plain then return handle(p, from, session, ...) end
    -- The usual case, in short.
    p.dispatch(session, from, ...)
    if answered_session ~= session or answered_from ~= from then
      local _, left = current()
      if left ~= 0 then forgotten(p, from, left) end
    end
    if boot.trace then boot.trace.finish() end
  end
end

-- `dispatch(protocol[, f])` → the function before: `f(session, address, …)` handles messages of the protocol from
-- now on.
function M.dispatch(typename, f)
  local p = protocol(typename, "dispatch")
  local before = p.dispatch
  if f == nil then return before end
  if type(f) ~= "function" then
    error(("bad argument #2 to 'dispatch' (function expected, got %s)"):format(type(f)), 2)
  end
  p.dispatch = f
  ltask.dispatch { [p.name] = handler(p) }
  return before
end

-- Asking --------------------------------------------------------------------------------------

-- `find(addr)` → the number of an address in any form, or nil and a message.
local function find(addr)
  if math.type(addr) == "integer" then return addr end
  local to = require "skynet.names".resolve(addr)
  if not to then return nil, ("there is no service '%s'"):format(tostring(addr)) end
  return to
end
M.find = find

-- The same; raises in the name of `call`.
local function address(addr, call)
  local to, problem = find(addr)
  if not to then error(("%s: %s"):format(call, problem), 3) end
  return to
end
M.address = address

local function finish_call(p, tag, ...)
  if tag then boot.trace.event "resume" end
  if plain[p.name] then return ... end
  return M.strings.from_string(p, (...))
end

local function call_any(addr, typename, ...)
  local p = protocol(typename, "call")
  local to = address(addr, "call")
  local tag = boot.trace and boot.trace.call(to, 2)
  if plain[p.name] then return finish_call(p, tag, ltask_call(to, p.name, ...)) end
  return finish_call(p, tag, ltask_call(to, p.name, M.strings.to_string(p, ...)))
end

-- `call(addr, protocol, …)` → what the service answered. Raises its error, and when it is dead or unknown.
function M.call(addr, typename, ...)
  local name = plain[typename]
  if name and math.type(addr) == "integer" and not boot.trace then return ltask_call(addr, name, ...) end
  return call_any(addr, typename, ...)
end

-- `send(addr, protocol, …)` → true; false and a message when there is no such service.
function M.send(addr, typename, ...)
  local p = protocol(typename, "send")
  local to, problem = find(addr)
  if not to then return false, problem end
  if plain[typename] then return ltask_send(to, p.name, ...) end
  return ltask_send(to, p.name, M.strings.to_string(p, ...))
end

-- Answering -----------------------------------------------------------------------------------

-- Whether the running request's protocol has strings.
local function wants_string()
  return M.strings and strings[this_task()]
end
M.wants_string = wants_string

-- Answers with a packed message, which is taken. → whether the answer was.
local function answer(from, session, as_string, msg, sz)
  if as_string then return post(from, session, RESPONSE, require "skynet.packed_message".take_string(msg, sz)) end
  if type(msg) ~= "userdata" then return post(from, session, RESPONSE, ltask.unpack(msg)) end
  local _, left, size = ltask.send_message_direct(from, session, RESPONSE, msg, sz)
  if left == nil then return true end
  ltask.remove(left, size)
  return false
end
M.answer = answer

-- Whether the running task has a request to answer. The start of a service is none, though root waits for it.
local function is_asked(from, session)
  return session and session ~= 0 and (from ~= ROOT or session ~= boot.session)
end
M.is_asked = is_asked

-- Nobody waits for an answer: false for a message that was sent, once; else an error.
local function not_asked(call)
  local co = this_task()
  if unasked[co] then
    unasked[co] = nil
    return false
  end
  error(("%s: no session: this coroutine handles no request, or has answered it"):format(call), 3)
end
M.not_asked = not_asked

-- `ret(msg, sz)` → whether the answer was taken; false when nobody asked. The message is what `pack` or
-- `packstring` gave, nothing for no values; it is taken.
function M.ret(msg, sz)
  local from, session = current()
  if not session or session == 0 or from == ROOT and not is_asked(from, session) then
    if type(msg) == "userdata" then ltask.remove(msg, sz) end
    return (not_asked "ret")
  end
  if boot.trace then boot.trace.event "response" end
  local taken = answer(from, session, wants_string(), msg, sz)
  answered_from, answered_session = from, session
  no_response()
  return taken
end

-- `retpack(…)`: `ret(pack(…))`.
function M.retpack(...)
  local from, session = current()
  if not session or session == 0 or from == ROOT and not is_asked(from, session) then
    return (not_asked "retpack")
  end
  if boot.trace then boot.trace.event "response" end
  local taken
  if wants_string() then
    taken = answer(from, session, true, ltask.pack(...))
  else
    taken = post(from, session, RESPONSE, ...)
  end
  answered_from, answered_session = from, session
  no_response()
  return taken
end

-- `ignoreret()`: this request is not answered, and that is no mistake.
function M.ignoreret()
  local from, session = current()
  if not from then return end
  if is_asked(from, session) then no_response() end
  unasked[this_task()] = nil
end

-- `context()` → session, address of the request that this coroutine handles: nothing where it handles none, and session
-- 0 when nobody waits.
function M.context()
  local from, session = current()
  if not from or from == 0 or from == ROOT and session == boot.session then return end
  return session, from
end

return M
