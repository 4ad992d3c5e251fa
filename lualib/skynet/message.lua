-- Skynet's messages as requests of the scheduler: handlers, `call`, `send` and `ret`. Used by lualib/skynet.lua.
--
-- A message is sent as a request whose name is the name of the protocol. The protocols "lua" and "debug", and other
-- protocols with the scheduler's `pack` and `unpack`, are *plain*: the values of a message are the request's arguments,
-- so that services that do not use skynet can send and answer the request. A message of another protocol has one
-- argument: the string that the protocol's `pack` returns.
--
-- Invariant: a request is answered once. Until then, the tag of its task has a session, which `ret` and `response`
-- remove. While the tag has a session, the scheduler answers the request if the handler raises an error.

local ltask = require "ltask"
local core = require "ltask.core"
local boot = require "skynet.boot"

local ltask_call <const>, ltask_send <const> = ltask.call, ltask.send
local post <const>, current <const>, no_response <const> = core.post, core.current, ltask.no_response
local this_task <const> = require "lio.task".current

local ROOT <const> = 1
local RESPONSE <const> = 2

local M = {}

local lua_protocol <const> = { name = "lua", id = 10, pack = ltask.pack, unpack = ltask.unpack }
local debug_protocol <const> = { name = "debug", id = 9, pack = ltask.pack, unpack = ltask.unpack }

-- `protocols`: the protocols, by name and by number. `plain`: the names of the plain protocols, by name and by number.
local protocols <const> = {
  lua = lua_protocol, [lua_protocol.id] = lua_protocol, debug = debug_protocol, [debug_protocol.id] = debug_protocol,
}
local plain <const> = { lua = "lua", [lua_protocol.id] = "lua", debug = "debug", [debug_protocol.id] = "debug" }
M.protocols, M.plain = protocols, plain

-- The module skynet.protocol, once there is a protocol that is not plain.
M.strings = false

-- The next tables have tasks as keys: a task's own coroutine, even while the handler runs in another coroutine.
local weak <const> = { __mode = "k" }
-- Tasks that handle a message without a session, until they answer it.
local without_session <const> = setmetatable({}, weak)
-- Tasks that handle a request of a protocol that is not plain.
local with_string <const> = setmetatable({}, weak)

-- `protocol(which, call)`: returns the protocol with that name or number. If there is none, raises an error that names
-- `call`.
local function protocol(which, call)
  local p = protocols[which]
  if not p then error(("%s: no protocol '%s' is registered"):format(call, tostring(which)), 3) end
  return p
end
M.protocol = protocol

-- Handlers ------------------------------------------------------------------------------------

-- The request that was answered last. When a handler returns, this is usually the request of the handler.
local answered_from, answered_session

local function forgotten(...)
  return require "skynet.unhandled".forgotten(...)
end

-- `text`: the message, if the handler gets the values of a string; otherwise nil, and the values follow.
local function handle(p, from, session, text, ...)
  local task = this_task()
  if session == 0 then
    without_session[task] = true
  elseif boot.trace then
    boot.trace.begin(from, p)
  end
  if text == nil then
    p.dispatch(session, from, ...)
  else
    with_string[task] = true
    p.dispatch(session, from, M.strings.from_string(p, text))
    with_string[task] = nil
  end
  local _, open_session = current()
  if open_session ~= 0 then forgotten(p, from, open_session) end
  without_session[task] = nil
  if boot.trace then boot.trace.finish() end
end

local function handler(p)
  local is_plain <const> = plain[p.name]
  return function(...)
    local from, session = current()
    if not is_plain then
      local text = ...
      return handle(p, from, session, text == nil and "" or text)
    end
    if session == 0 or boot.trace then return handle(p, from, session, nil, ...) end
    -- The same as `handle`, without the branches for rare cases.
    p.dispatch(session, from, ...)
    if answered_session ~= session or answered_from ~= from then
      local _, open_session = current()
      if open_session ~= 0 then forgotten(p, from, open_session) end
    end
    if boot.trace then boot.trace.finish() end
  end
end

-- `handle_string(p, text)`: calls the handler of protocol `p` for the current request, whose message and answer are
-- strings even if the protocol is plain.
function M.handle_string(p, text)
  local from, session = current()
  return handle(p, from, session, text)
end

-- `handle_without_session(f, …)`: calls a handler, whose message cannot be answered.
function M.handle_without_session(f, ...)
  local task = this_task()
  without_session[task] = true
  f(...)
  without_session[task] = nil
end

-- `dispatch(protocol[, f])`: makes `f(session, address, …)` handle the messages of the protocol. Returns the previous
-- function. If `f` is nil, changes nothing.
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

-- Sending -------------------------------------------------------------------------------------

-- `find(addr)`: returns an address in any form as a number; or nil and an error if there is no such service.
local function find(addr)
  if math.type(addr) == "integer" then return addr end
  if addr == nil then return nil, "the address is nil" end
  local to = require "skynet.names".resolve(addr)
  if not to then return nil, ("there is no service '%s'"):format(tostring(addr)) end
  return to
end
M.find = find

-- `address(addr, call)`: like `find`, but if there is no such service, raises an error that names `call`.
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
  return finish_call(p, tag, ltask_call(to, p.name, M.strings.to_string(p, "call", ...)))
end

-- `call(addr, protocol, …)`: sends a request, and returns the service's answer. Raises if the service answers with an
-- error, has died, or is unknown.
function M.call(addr, typename, ...)
  local name = plain[typename]
  if name and math.type(addr) == "integer" and not boot.trace then return ltask_call(addr, name, ...) end
  return call_any(addr, typename, ...)
end

-- `send(addr, protocol, …)`: sends a message. Returns true, or false and an error if there is no such service.
function M.send(addr, typename, ...)
  local p = protocol(typename, "send")
  local to, problem = find(addr)
  if not to then return false, problem end
  if plain[typename] then return ltask_send(to, p.name, ...) end
  return ltask_send(to, p.name, M.strings.to_string(p, "send", ...))
end

-- Answering -----------------------------------------------------------------------------------

-- `wants_string()`: returns whether the answer to the current request must be a string.
local function wants_string()
  return M.strings and with_string[this_task()]
end
M.wants_string = wants_string

-- `answer(from, session, as_string, msg, sz)`: answers with a packed message, and takes over the message. Returns
-- whether the answer was delivered.
local function answer(from, session, as_string, msg, sz)
  if as_string then return post(from, session, RESPONSE, require "skynet.packed_message".take_string(msg, sz)) end
  if type(msg) ~= "userdata" then return post(from, session, RESPONSE, ltask.unpack(msg)) end
  local _, rejected, size = ltask.send_message_direct(from, session, RESPONSE, msg, sz)
  if rejected == nil then return true end
  ltask.remove(rejected, size)
  return false
end
M.answer = answer

-- `is_asked(from, session)`: returns whether the running task has a request to answer. Root's request to start the
-- service does not count.
local function is_asked(from, session)
  return session and session ~= 0 and (from ~= ROOT or session ~= boot.session)
end
M.is_asked = is_asked

-- `not_asked(call)`: called when there is no request to answer. If the task handles a message that was sent without a
-- session, the first call returns false. Otherwise raises an error that names `call`.
local function not_asked(call)
  local task = this_task()
  if without_session[task] then
    without_session[task] = nil
    return false
  end
  error(("%s: no session: this coroutine is not handling a request, or has already answered it"):format(call), 3)
end
M.not_asked = not_asked

-- `ret([msg, sz])`: answers with a message that `pack` or `packstring` returned, and takes over the message. Without a
-- message, the answer has no values. Returns whether the answer was delivered; false if the message was sent without a
-- session.
function M.ret(msg, sz)
  local from, session = current()
  if not session or session == 0 or from == ROOT and not is_asked(from, session) then
    if type(msg) == "userdata" then ltask.remove(msg, sz) end
    return (not_asked "ret")
  end
  if boot.trace then boot.trace.event "response" end
  local is_delivered = answer(from, session, wants_string(), msg, sz)
  answered_from, answered_session = from, session
  no_response()
  return is_delivered
end

-- `retpack(…)`: the same as `ret(pack(…))`.
function M.retpack(...)
  local from, session = current()
  if not session or session == 0 or from == ROOT and not is_asked(from, session) then
    return (not_asked "retpack")
  end
  if boot.trace then boot.trace.event "response" end
  local is_delivered
  if wants_string() then
    is_delivered = answer(from, session, true, ltask.pack(...))
  else
    is_delivered = post(from, session, RESPONSE, ...)
  end
  answered_from, answered_session = from, session
  no_response()
  return is_delivered
end

-- `ignoreret()`: leaves the current request without an answer, and without an entry in the log.
function M.ignoreret()
  local from, session = current()
  if not from then return end
  if is_asked(from, session) then no_response() end
  without_session[this_task()] = nil
end

-- `context()`: returns the session and the sender of the request that this coroutine handles. The session is 0 if no
-- answer is expected. Returns nothing if the coroutine handles no request.
function M.context()
  local from, session = current()
  if not from or from == 0 or from == ROOT and session == boot.session then return end
  return session, from
end

return M
