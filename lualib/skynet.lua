-- `require "skynet"`: skynet's words on the bundled scheduler, for programs that were written for skynet. Called by
-- services; docs/skynet.md tells what differs.
--
-- Every service has a VM of its own, so the table is filled by what is used: a part is loaded when the first of its
-- words is.

local ltask = require "ltask"
local core = require "ltask.core"

local skynet = {}

-- By part, its words, each between two blanks.
local PARTS <const> = {
  ["skynet.boot"] = " start init exit pcall ",
  ["skynet.message"] = " dispatch call send ret retpack ignoreret context ",
  ["skynet.response"] = " response ",
  ["skynet.protocol"] = " register_protocol rawcall rawsend"
    .. " PTYPE_TEXT PTYPE_RESPONSE PTYPE_MULTICAST PTYPE_CLIENT PTYPE_SYSTEM PTYPE_HARBOR PTYPE_SOCKET"
    .. " PTYPE_ERROR PTYPE_QUEUE PTYPE_DEBUG PTYPE_LUA PTYPE_SNAX PTYPE_TRACE ",
  ["skynet.packed_message"] = " packstring tostring trash ",
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

function meta.__index(_, word)
  if type(word) ~= "string" then return nil end
  for part, words in pairs(PARTS) do
    if words:find(" " .. word .. " ", 1, true) then
      local value = require(part)[word]
      skynet[word] = value
      return value
    end
  end
end

function meta.__pairs()
  for _, words in pairs(PARTS) do
    for word in words:gmatch "%S+" do skynet[word] = skynet[word] end
  end
  return next, skynet, nil
end

-- `pack(…)` → pointer, size: the caller's, to be passed to `ret`, `rawsend` or `rawcall`, or to `trash`.
skynet.pack = ltask.pack

-- `unpack(msg, sz)` → the values of a pointer, which is not freed, or of a string.
skynet.unpack = ltask.unpack

-- `self()` → this service's address.
function skynet.self()
  return ltask.self()
end

-- `address(addr)` → a number as ":%08x", anything else as text.
function skynet.address(addr)
  if math.type(addr) == "integer" then return (":%08x"):format(addr) end
  return tostring(addr)
end

local last = 0

-- `genid()` → a number that this service has not given out before.
function skynet.genid()
  last = last + 1
  return last
end

-- `error(…)`: a line of the log, the values with spaces between them.
function skynet.error(...)
  local list = table.pack(...)
  for i = 1, list.n do list[i] = tostring(list[i]) end
  core.log("info", table.concat(list, " "))
end

return setmetatable(skynet, meta)
