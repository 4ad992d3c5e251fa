-- Error objects: an error, and a traceback of each service that the error has passed through. Used by ltask.callbacks;
-- programs call `ltask.raise_error` and `ltask.error`.
--
-- An error object is `{ message = string, err = value, traceback, … }`. `err` is the raised value; it is absent if the
-- value is a string or cannot be packed. Messages contain the table without its metatable; the receiver sets the
-- metatable again.

local ltask = require "ltask"
local core = require "ltask.core"
local require <const> = core.require_now

local ERROR <const> = 3
local ROOT <const> = 1

local M = {}

local object_meta = {}

function object_meta:__tostring()
  local lines = { self.message }
  for _, traceback in ipairs(self) do lines[#lines + 1] = traceback end
  return table.concat(lines, "\n")
end

function object_meta.__concat(a, b)
  return tostring(a) .. tostring(b)
end

local function text_of(err)
  if type(err) == "string" then return err end
  local meta = getmetatable(err)
  if type(err) == "table" and not (type(meta) == "table" and rawget(meta, "__tostring")) then
    return require "lio.repl.show".brief(err)
  end
  local ok, text = pcall(tostring, err)
  return ok and text or "(error object is a " .. type(err) .. " value)"
end

local function is_packable(value)
  local ok, pointer, size = pcall(ltask.pack, value)
  if ok then ltask.remove(pointer, size) end
  return ok
end

-- `is_object(err)`: returns whether the error is an error object.
function M.is_object(err)
  return getmetatable(err) == object_meta
end

-- `from_answer(err)`: turns the table of an answer into an error object, and returns it.
function M.from_answer(err)
  return setmetatable(err, object_meta)
end

-- `add_traceback(object [, co])`: adds this service's traceback: that of `co`, or by default that of the running
-- coroutine from two levels above the caller, where the program called the library. The frames of the library are left
-- out; root is not mentioned if no other frames are left. Does not repeat the object's last traceback: if a coroutine
-- fails because its call has failed, its traceback has not changed since the call.
function M.add_traceback(object, co)
  local traceback = require "lio.traceback".shorten(co and debug.traceback(co, nil) or debug.traceback(nil, 4))
  local text = ("in service %d (%s)"):format(ltask.self(), ltask.label())
  if traceback ~= "" then
    text = text .. ", " .. traceback
  elseif ltask.self() == ROOT then
    return
  end
  if object[#object] ~= text then object[#object + 1] = text end
end

-- `describe(err [, co])`: returns the error as an error object, with the traceback that `add_traceback` adds.
function M.describe(err, co)
  local object = err
  if not M.is_object(err) then
    object = M.from_answer { message = text_of(err) }
    if type(err) ~= "string" and is_packable(err) then object.err = err end
  end
  M.add_traceback(object, co)
  return object
end

local function post_error(call, addr, session, err)
  local ok, problem = pcall(core.post, addr, session, ERROR, err)
  if not ok then require "lio.misuse".relay(call, problem) end
end

-- `ltask.raise_error(addr, session, message)`: answers a request with an error, to which this service's traceback is
-- added. Logs the error if `session` is 0.
function M.raise_error(addr, session, message)
  if session == 0 then
    ltask.log.error(text_of(message))
    return
  end
  post_error("raise_error", addr, session, M.describe(message))
end

-- `ltask.error(addr, session, err)`: answers a request with the unchanged error. Does nothing if `session` is 0.
function M.error(addr, session, err)
  if session ~= 0 then post_error("error", addr, session, err) end
end

return M
