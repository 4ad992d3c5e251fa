-- `require "skynet"`: the Skynet compatibility API on lio's scheduler. Used by services; docs/skynet.md lists the
-- differences from Skynet.
--
-- Every service has its own VM, so the table is filled on demand: a module is loaded when one of its functions is first
-- used.

local ltask = require "ltask"
local core = require "ltask.core"

local skynet = {}

-- The functions and constants of each module, each name between two spaces.
local MODULES <const> = {
  ["skynet.boot"] = " start init exit pcall ",
  ["skynet.message"] = " dispatch call send ret retpack ignoreret context ",
  ["skynet.response"] = " response ",
  ["skynet.protocol"] = " register_protocol rawcall rawsend"
    .. " PTYPE_TEXT PTYPE_RESPONSE PTYPE_MULTICAST PTYPE_CLIENT PTYPE_SYSTEM PTYPE_HARBOR PTYPE_SOCKET"
    .. " PTYPE_ERROR PTYPE_QUEUE PTYPE_DEBUG PTYPE_LUA PTYPE_SNAX PTYPE_TRACE ",
  ["skynet.packed_message"] = " packstring tostring trash ",
  ["skynet.redirect"] = " redirect ",
  ["skynet.request"] = " request select ",
  ["skynet.task"] = " fork sleep yield wait wakeup timeout trace_timeout ",
  ["skynet.lifecycle"] = " kill abort newservice uniqueservice queryservice ",
  ["skynet.names"] = " localname name register getenv setenv ",
  ["skynet.clock"] = " now starttime time hpc ",
  ["skynet.trace"] = " trace tracetag traceproto ",
  ["skynet.inspect"] = " task uniqtask killthread stat mqlen endless memlimit term ",
  ["skynet.debug"] = " info_func ",
  ["skynet.unhandled"] = " dispatch_unknown_request dispatch_unknown_response ",
}

local meta = {}

function meta.__index(_, name)
  if type(name) ~= "string" then return nil end
  for module, names in pairs(MODULES) do
    if names:find(" " .. name .. " ", 1, true) then
      local value = require(module)[name]
      skynet[name] = value
      return value
    end
  end
end

function meta.__pairs()
  for _, names in pairs(MODULES) do
    for name in names:gmatch "%S+" do skynet[name] = skynet[name] end
  end
  return next, skynet, nil
end

-- `pack(…)`: packs the values into a message, and returns its pointer and its size. The caller passes them to `ret`,
-- `rawsend`, `rawcall` or `trash`.
skynet.pack = ltask.pack

-- `unpack(msg, sz)`: returns the values of a message or of a packed string. Does not free the message.
skynet.unpack = ltask.unpack

-- `self()`: returns this service's address.
function skynet.self()
  return ltask.self()
end

-- `address(addr)`: returns an integer in the format ":%08x", or `tostring(addr)` for any other value.
function skynet.address(addr)
  if math.type(addr) == "integer" then return (":%08x"):format(addr) end
  return tostring(addr)
end

local last_id = 0

-- `genid()`: returns a number that this function has not returned before in this service.
function skynet.genid()
  last_id = last_id + 1
  return last_id
end

-- `error(…)`: adds the values to the log, with spaces between them.
function skynet.error(...)
  local list = table.pack(...)
  for i = 1, list.n do list[i] = tostring(list[i]) end
  core.log("info", table.concat(list, " "))
end

-- The functions that raise outside of a service.
local FOR_SERVICES <const> = "self error dispatch call send ret retpack ignoreret context response rawcall rawsend"
  .. " redirect exit sleep yield timeout kill abort newservice uniqueservice queryservice localname name register"
  .. " getenv setenv stat mqlen endless memlimit term"

if not ltask.call then
  for name in FOR_SERVICES:gmatch "%S+" do
    skynet[name] = function(...) -- luacheck: ignore 212
      error(name .. ": works only inside a service", 2)
    end
  end
end

-- After all other searchers: `require` of a module of skynet that is missing here raises what to use instead.
package.searchers[#package.searchers + 1] = function(name) return require "skynet.missing".search(name) end

return setmetatable(skynet, meta)
