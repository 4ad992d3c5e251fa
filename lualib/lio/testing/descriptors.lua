-- Which descriptors this process has open, to find those that a test has not closed. Part of `lio.testing`, and used by
-- the project's own test kit. Works where there is a folder /proc, such as on Linux. It loads no other module.

local M = {}

-- How long the check is repeated, in seconds of CPU time: another thread of the process may be closing a descriptor.
local PATIENCE <const> = 0.2

local function read_file(path)
  local f <close> = io.open(path, "rb")
  return f and f:read "a"
end

-- `open()` returns the open descriptors as a table { [number] = true }, and their number; nil if there is no /proc.
-- Reads /proc/self/fdinfo and not /proc/self/fd, because opening an entry of /proc/self/fd opens its file, so a pipe
-- could block. FDSize is the end of the numbers.
function M.open()
  local size = tonumber((read_file "/proc/self/status" or ""):match "FDSize:%s*(%d+)")
  if not size then return nil end
  local open, count = {}, 0
  for fd = 0, size - 1 do
    local f = io.open("/proc/self/fdinfo/" .. fd)
    if f then
      f:close()
      open[fd] = true
      count = count + 1
    end
  end
  return open, count
end

-- `describe(numbers)` returns a text that names the file or the socket of each descriptor.
function M.describe(numbers)
  local pid = (read_file "/proc/self/stat" or ""):match "^%d+"
  local what = {}
  for _, fd in ipairs(numbers) do
    local p = io.popen(string.format("readlink /proc/%s/fd/%d 2>&1", pid, fd))
    what[#what + 1] = fd .. " -> " .. (p and p:read "l" or "?")
    if p then p:close() end
  end
  return table.concat(what, ", ")
end

-- `new_since(before)` returns a sorted list of the descriptors that are open now and not in `before`.
function M.new_since(before)
  local numbers = {}
  for fd in pairs(M.open() or {}) do
    if not before[fd] then numbers[#numbers + 1] = fd end
  end
  table.sort(numbers)
  return numbers
end

-- `left_since(before)` returns a list like `new_since`, after waiting for the collector and for other threads; nil if
-- it is empty.
function M.left_since(before)
  local deadline = os.clock() + PATIENCE
  while true do
    collectgarbage()
    collectgarbage()
    local numbers = M.new_since(before)
    if #numbers == 0 then return nil end
    if os.clock() > deadline then return numbers end
  end
end

return M
