-- The control file of faults.c: sets the rates of faults of system calls, and reads how many were injected. Invariant:
-- the order of the names is that of the enumeration in faults.c.

local M = {}

M.names = {
  "accept", "socket", "connect", "recv", "send", "open", "write", "short", "sendfile", "epoll", "descriptor", "thread",
  "storm", "clock",
}

local SLOTS <const> = 32

local Shim = {}
Shim.__index = Shim

--- Creates a control file without faults.
function M.new(path)
  local file = assert(io.open(path, "w+b"))
  file:setvbuf "no"
  file:write(("\0"):rep(SLOTS * 16))
  return setmetatable({ file = file, path = path }, Shim)
end

--- Sets rates: parts per million for calls, signals a second for "storm", seconds for "clock".
function Shim:set(rates)
  for i, name in ipairs(M.names) do
    if rates[name] then
      self.file:seek("set", (i - 1) * 8)
      self.file:write(string.pack("<i8", rates[name]))
    end
  end
end

--- Ends all faults.
function Shim:quiet()
  for _, name in ipairs(M.names) do self:set { [name] = 0 } end
end

--- Returns the number of injected faults by name.
function Shim:counts()
  local counts = {}
  self.file:seek("set", SLOTS * 8)
  local bytes = self.file:read(SLOTS * 8)
  for i, name in ipairs(M.names) do counts[name] = string.unpack("<i8", bytes, (i - 1) * 8 + 1) end
  return counts
end

return M
