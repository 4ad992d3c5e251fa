-- `require "skynet"`: skynet's words on the bundled scheduler, for programs that were written for skynet. Called by
-- services; docs/skynet.md tells what differs.
--
-- The table is put together here: lualib/skynet/message.lua, task.lua, services.lua, names.lua, packing.lua
-- and trace.lua have the functions.

local ltask = require "ltask"
local message = require "skynet.message"
local names = require "skynet.names"
local packing = require "skynet.packing"
local services = require "skynet.services"
local task = require "skynet.task"
local trace = require "skynet.trace"

local skynet = {}

local function take(from, list)
  for name in list:gmatch "%S+" do skynet[name] = assert(from[name], name) end
end

take(message, "register_protocol dispatch call send rawcall rawsend ret retpack response ignoreret context")
for name, value in pairs(message) do
  if name:find "^PTYPE_" then skynet[name] = value end
end
take(task, "fork sleep yield wait wakeup timeout")
take(services, "start init exit kill abort error newservice uniqueservice queryservice")
take(names, "localname name register getenv setenv")
take(packing, "pack unpack packstring tostring trash")
take(trace, "trace tracetag")

-- Time ----------------------------------------------------------------------------------------

-- The clock counts from the begin of the process. Its first centisecond is the fraction of the second that the
-- process began in, as in skynet, so that `starttime` is whole and `time` exact.
local epoch

local function begin()
  epoch = epoch or ltask.walltime() - math.floor(ltask.counter() * 100)
  return epoch
end

-- `now()` → centiseconds since the process began.
function skynet.now()
  return math.floor(ltask.counter() * 100) + begin() % 100
end

-- `starttime()` → when that was: seconds since the epoch, an integer.
function skynet.starttime()
  return begin() // 100
end

-- `time()` → seconds since the epoch, with centiseconds.
function skynet.time()
  return skynet.now() / 100 + skynet.starttime()
end

-- `hpc()` → nanoseconds of a clock that only goes forward.
function skynet.hpc()
  return math.floor(ltask.counter() * 1e9)
end

-- Addresses -----------------------------------------------------------------------------------

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

return skynet
