-- The class of sessions, `req.session`: a plain table of the program's data, with methods. Part of `web.sessions`
-- (web/sessions.lua), which creates a session for each request and saves it.
--
-- Invariant: when the head of the response is sent, the session is saved, and is then read-only, because the
-- client could no longer get a change.

local json = require "lio.json"
local misuse = require "lio.misuse"

local M = {}

local Session = {}
Session.__name = "lio.session"

-- The state of each session: `id`, the session's id in the store, or nil; `text`, the data as it was loaded, or nil if
-- the session is new; `is_destroyed`; `needs_id`, whether it must get a new id; `is_saved`; `is_read`, whether the
-- program has read a field that the session does not have, or has called a method or `pairs`.
local states = setmetatable({}, { __mode = "k" })

function Session.__index(session, name)
  local state = states[session]
  if state then state.is_read = true end
  return Session[name]
end

function Session.__pairs(session)
  local state = states[session]
  if state then state.is_read = true end
  return next, session, nil
end

local SAVED <const> = "the head of the response has been sent, so the session can no longer be changed"

local function state_of(session, call)
  local state = states[session]
  if not state then misuse.no_colon("session", call) end
  return state
end

local function check_open(session, call)
  local state = state_of(session, call)
  if state.is_saved then misuse.raise(("session:%s: %s"):format(call, SAVED)) end
  return state
end

-- `session:id()` returns the id of the session in the store; nil if it has not been saved, or without a store.
function Session:id()
  return state_of(self, "id").id
end

-- `session:destroy()`: removes the data, and the cookie when the response is sent.
function Session:destroy()
  local state = check_open(self, "destroy")
  for name in pairs(self) do self[name] = nil end
  state.is_destroyed = true
end

-- `session:regenerate()`: gives the session a new id in the store, and the cookie a new value. Call it when a user logs
-- in, so that an id that another person has learned before is no longer valid.
function Session:regenerate()
  check_open(self, "regenerate").needs_id = true
end

-- `session:flash(name, value)`: keeps a value until `session:flash(name)` returns it, which is usually in the next
-- request.
function Session:flash(name, ...)
  check_open(self, "flash")
  misuse.check("flash", 1, name, "string")
  local values = rawget(self, "_flash")
  if values ~= nil and type(values) ~= "table" then
    misuse.raise("session:flash: the field '_flash' must not be set, because it keeps these values; got "
      .. misuse.shown(values))
  end
  if select("#", ...) > 0 then
    values = values or {}
    values[name] = (...)
    self._flash = values
    return
  end
  local value = values and values[name]
  if values then
    values[name] = nil
    if next(values) == nil then self._flash = nil end
  end
  return value
end

-- `new(text, id)` returns a session with the data that `encode` has converted to `text`; an empty session if `text` is
-- nil or invalid.
function M.new(text, id)
  local data = text and json.decode(text)
  if type(data) ~= "table" then data, text, id = {}, nil, nil end
  local session = setmetatable(data, Session)
  states[session] = { text = text, id = id, is_destroyed = false, needs_id = false, is_saved = false }
  return session
end

-- `state(session)` returns the state of a session.
function M.state(session)
  return states[session]
end

-- `encode(session)` returns the data as JSON; nil if there is none. Raises for data that JSON cannot represent, and for
-- names that are methods.
function M.encode(session)
  if next(session) == nil then return nil end
  for name in pairs(Session) do
    if rawget(session, name) ~= nil then
      error(("web.sessions: the name '%s' of a session's field is that of a method"):format(name), 0)
    end
  end
  local ok, text = pcall(json.encode, setmetatable(session, nil), { sort = true })
  setmetatable(session, Session)
  if not ok then error("web.sessions: the session cannot be saved: " .. misuse.without_position(text), 0) end
  return text
end

-- `close(session)`: makes a session read-only.
function M.close(session)
  local data = {}
  for name, value in pairs(session) do data[name] = value end
  for name in pairs(data) do session[name] = nil end
  states[session].is_saved = true
  setmetatable(session, {
    __name = Session.__name,
    __index = function(_, name)
      local value = data[name]
      if value == nil then value = Session[name] end
      return value
    end,
    __newindex = function(_, name) misuse.raise(("req.session.%s: %s"):format(tostring(name), SAVED)) end,
    __pairs = function() return next, data, nil end,
  })
end

return M
