-- Skynet's messages on the scheduler's requests: protocols, `call`, `send`, `ret`, `response`. Called through
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
local task = require "lio.task"
local packing = require "skynet.packing"
local trace = require "skynet.trace"
local names = require "skynet.names"
local launch = require "skynet.launch"

local ltask_call <const>, ltask_send <const> = ltask.call, ltask.send
local send_direct <const> = ltask.send_message_direct
local post <const>, current <const>, no_response <const> = core.post, core.current, ltask.no_response
local this_task <const> = task.current

local ROOT <const> = 1
local RESPONSE <const>, ERROR <const> = 2, 3

local M = {}

-- Numbers of protocols, as in skynet.
local NUMBERS <const> = {
  TEXT = 0, RESPONSE = 1, MULTICAST = 2, CLIENT = 3, SYSTEM = 4, HARBOR = 5, SOCKET = 6, ERROR = 7, QUEUE = 8,
  DEBUG = 9, LUA = 10, SNAX = 11, TRACE = 12,
}
for name, number in pairs(NUMBERS) do M["PTYPE_" .. name] = number end

local protocols = {} -- by name and by number
local plain = {} -- name or number → name, of those whose values travel as they are

-- Tasks that handle a message which nobody waits for, until they answer it. A task is meant by its own coroutine,
-- also where a coroutine of the handler's making runs.
local unasked = setmetatable({}, { __mode = "k" })
-- Tasks that handle a request of a protocol with a `pack` of its own, and whether there is such a protocol.
local strings, has_strings = setmetatable({}, { __mode = "k" }), false

-- Protocols -----------------------------------------------------------------------------------

local function check(ok, ...)
  if not ok then error("register_protocol: " .. string.format(...), 3) end
end

local function is_own(f, own)
  return f == nil or f == own
end

-- `register_protocol{ name=, id=, pack=, unpack=, dispatch= }`: makes a kind of message known. `pack` gives a
-- string, or what `skynet.pack` gave; `unpack` is called with a string and its length.
function M.register_protocol(class)
  check(type(class) == "table", "a table expected, got %s", type(class))
  local name, id = class.name, class.id
  check(type(name) == "string", "the name is no string")
  check(math.type(id) == "integer" and id >= 0 and id <= 255, "%s: the id is no number from 0 to 255", name)
  check(not protocols[name] and not protocols[id], "%s, %d: the name or the id is taken", name, id)
  for _, field in ipairs { "pack", "unpack", "dispatch" } do
    local kind = type(class[field])
    check(kind == "nil" or kind == "function", "%s: %s is no function", name, field)
  end
  protocols[name], protocols[id] = class, class
  if is_own(class.pack, packing.pack) and is_own(class.unpack, packing.unpack) then
    plain[name], plain[id] = name, name
  else
    has_strings = true
  end
  if class.dispatch then M.dispatch(name, class.dispatch) end
end

local function protocol(which, call)
  local p = protocols[which]
  if not p then error(("%s: no protocol '%s' is registered"):format(call, tostring(which)), 3) end
  return p
end

local function to_string(p, ...)
  if not p.pack then error(("the protocol '%s' has no function pack"):format(p.name), 0) end
  return packing.take_string(p.pack(...))
end

local function from_string(p, text)
  if not p.unpack then error(("the protocol '%s' has no function unpack"):format(p.name), 0) end
  if text == nil then text = "" end
  if type(text) ~= "string" then
    error(("a string expected for the protocol '%s', got %s"):format(p.name, type(text)), 0)
  end
  return p.unpack(text, #text)
end

-- Handlers ------------------------------------------------------------------------------------

-- The request that was answered last: for most handlers, that is the one that they had to answer.
local answered_from, answered_session

-- Where a function of the program begins.
local function place_of(f)
  local info = debug.getinfo(f, "S")
  return ("%s:%d"):format(info.short_src, info.linedefined)
end

-- The handler returned, and nobody answered: who asked goes on waiting, as in skynet.
local function forgotten(p, from, session)
  no_response()
  ltask.log.error(("a response was forgotten: session %d of :%08x; the handler of '%s' is at %s")
    :format(session, from, p.name, place_of(p.dispatch)))
end

local function handle(p, from, session, ...)
  local co = this_task()
  local is_string = not plain[p.name]
  if session == 0 then unasked[co] = true end
  if is_string then strings[co] = true end
  if trace.on and session ~= 0 then trace.begin(from) end
  if is_string then
    p.dispatch(session, from, from_string(p, (...)))
  else
    p.dispatch(session, from, ...)
  end
  local _, left = current()
  if left ~= 0 then forgotten(p, from, left) end
  unasked[co], strings[co] = nil, nil
  if trace.on then trace.finish() end
end

local function handler(p)
  if not plain[p.name] then
    return function(...)
      local from, session = current()
      return handle(p, from, session, ...)
    end
  end
  -- The usual case, in short.
  return function(...)
    local from, session = current()
    if session == 0 or trace.on then return handle(p, from, session, ...) end
    p.dispatch(session, from, ...)
    if answered_session ~= session or answered_from ~= from then
      local _, left = current()
      if left ~= 0 then forgotten(p, from, left) end
    end
    if trace.on then trace.finish() end
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

local function finish_call(p, tag, ...)
  if tag then trace.event "resume" end
  if plain[p.name] then return ... end
  return from_string(p, (...))
end

local function address(addr, call)
  if math.type(addr) == "integer" then return addr end
  local to = names.resolve(addr)
  if not to then error(("%s: there is no service '%s'"):format(call, tostring(addr)), 3) end
  return to
end

local function call_any(addr, typename, ...)
  local p = protocol(typename, "call")
  local to = address(addr, "call")
  local tag = trace.call(to, 2)
  if plain[p.name] then return finish_call(p, tag, ltask_call(to, p.name, ...)) end
  return finish_call(p, tag, ltask_call(to, p.name, to_string(p, ...)))
end

-- `call(addr, protocol, …)` → what the service answered. Raises its error, and when it is dead or unknown.
function M.call(addr, typename, ...)
  local name = plain[typename]
  if name and type(addr) == "number" and not trace.on then return ltask_call(addr, name, ...) end
  return call_any(addr, typename, ...)
end

-- `send(addr, protocol, …)` → true; false and a message when there is no such service.
function M.send(addr, typename, ...)
  local p = protocol(typename, "send")
  local to = type(addr) == "number" and addr or names.resolve(addr)
  if not to then return false, ("there is no service '%s'"):format(tostring(addr)) end
  if plain[typename] then return ltask_send(to, p.name, ...) end
  return ltask_send(to, p.name, to_string(p, ...))
end

local function packed(...)
  local text = packing.packstring(...)
  return text, #text
end

-- `rawcall(addr, protocol, msg, sz)` → msg, sz: passes a packed message, which is taken, and gives the answer as
-- a string and its length.
function M.rawcall(addr, typename, msg, sz)
  local p = protocol(typename, "rawcall")
  local to = address(addr, "rawcall")
  local tag = trace.call(to, 2)
  if plain[p.name] then return packed(finish_call(p, tag, ltask_call(to, p.name, packing.take(msg, sz)))) end
  local text = ltask_call(to, p.name, packing.take_string(msg, sz)) or ""
  if tag then trace.event "resume" end
  return text, #text
end

-- `rawsend(addr, protocol, msg, sz)`: the same without an answer; results as `send`.
function M.rawsend(addr, typename, msg, sz)
  local p = protocol(typename, "rawsend")
  local to = type(addr) == "number" and addr or names.resolve(addr)
  if not to then
    packing.trash(msg, sz)
    return false, ("there is no service '%s'"):format(tostring(addr))
  end
  if plain[p.name] then return ltask_send(to, p.name, packing.take(msg, sz)) end
  return ltask_send(to, p.name, packing.take_string(msg, sz))
end

-- Answering -----------------------------------------------------------------------------------

-- Whether the running request's protocol has strings.
local function wants_string()
  return has_strings and strings[this_task()]
end

local function answer(from, session, as_string, msg, sz)
  if as_string then return post(from, session, RESPONSE, packing.take_string(msg, sz)) end
  if type(msg) ~= "userdata" then return post(from, session, RESPONSE, packing.unpack(msg)) end
  local _, left, size = send_direct(from, session, RESPONSE, msg, sz)
  if left == nil then return true end
  ltask.remove(left, size)
  return false
end

-- Whether the running task has a request to answer. The start of a service is none, though root waits for it.
local function is_asked(from, session)
  return session and session ~= 0 and (from ~= ROOT or session ~= launch.session)
end

-- Nobody waits for an answer: false for a message that was sent, once; else an error.
local function not_asked(call)
  local co = this_task()
  if unasked[co] then
    unasked[co] = nil
    return false
  end
  error(("%s: no session: this coroutine handles no request, or has answered it"):format(call), 3)
end

-- `ret(msg, sz)` → whether the answer was taken; false when nobody asked. The message is what `pack` or
-- `packstring` gave, nothing for no values; it is taken.
function M.ret(msg, sz)
  local from, session = current()
  if not session or session == 0 or from == ROOT and not is_asked(from, session) then
    packing.trash(msg, sz)
    return (not_asked "ret")
  end
  if trace.on then trace.event "response" end
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
  if trace.on then trace.event "response" end
  local taken
  if wants_string() then
    taken = post(from, session, RESPONSE, packing.packstring(...))
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
  if not from or from == 0 or from == ROOT and session == launch.session then return end
  return session, from
end

local function respond(from, session, as_string, packer, ok, ...)
  if not ok then
    return post(from, session, ERROR, ("{service:%d} answered with an error"):format(ltask.self()))
  end
  if packer then return answer(from, session, as_string, packer(...)) end
  if as_string then return post(from, session, RESPONSE, packing.packstring(...)) end
  return post(from, session, RESPONSE, ...)
end

-- `response([pack])` → a function that answers this request, later and anywhere in this service, once: called with
-- true and the values, or with false for an error, it returns whether the answer was taken; with "TEST", whether
-- an answer is still wanted.
function M.response(packer)
  local from, session = current()
  if not is_asked(from, session) then
    not_asked "response"
    return function() end
  end
  local as_string = wants_string()
  local open = true
  no_response()
  return function(ok, ...)
    if ok == "TEST" then return open and ltask.touch_service(from) end
    if not open then error("response: this request was answered already", 2) end
    local taken = respond(from, session, as_string, packer, ok, ...)
    open = false
    return taken
  end
end

-- What the scheduler says -----------------------------------------------------------------------

local exiting = false

-- No more is said of requests that end without an answer.
function M.stop()
  exiting = true
end

-- From now on errors of requests are logged here as well, and a request whose coroutine was closed tells the
-- program's line.
function M.listen()
  local hooks = require "ltask.more".hooks
  local failed, closed = hooks.failed, hooks.forgotten
  function hooks.failed(co, err, from, session)
    local object = failed(co, err, from, session)
    if trace.on then trace.failed(co) end
    if session == 0 then return object end
    -- Root asks for one thing: that the service starts.
    local what = "the service could not start"
    if from ~= ROOT then what = ("error in a request of :%08x, session %d"):format(from, session) end
    ltask.log.error(what .. ": " .. tostring(object))
    return object
  end
  function hooks.forgotten(name, from)
    if exiting then return end
    local p = protocols[name]
    if not p or not p.dispatch then return closed(name, from) end
    ltask.log.error(("a request of :%08x was closed before it was answered; the handler of '%s' is at %s")
      :format(from, name, place_of(p.dispatch)))
  end
end

M.register_protocol { name = "lua", id = M.PTYPE_LUA, pack = packing.pack, unpack = packing.unpack }

return M
