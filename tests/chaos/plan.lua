-- The plans of tests/chaos/proxy.lua: what happens to a connection.
-- The faults of one direction are a table: `bytes` (maximum bytes of a segment), `pause` (maximum seconds before a
-- segment), `stall` (seconds to wait once), and `after`: after that many bytes, `finish` happens.

local loop = require "lio.loop"

local M = {}

local WEIGHTS <const> = {
  none = 40, bytes = 9, delay = 9, stall = 6, hang = 2, reset_up = 5, reset_down = 6, close_up = 3, close_down = 3,
  half_up = 4, half_down = 4, refuse = 3, reorder = 6,
}

local DRAWS <const> = {
  none = function() return {}, {} end,
  refuse = function() return {}, {} end,
  reorder = function() return {}, {} end,
  -- One-byte segments for the first part of each direction: a whole upload would take too long.
  bytes = function(r) return { bytes = r:draw(1, 3), count = 600 }, { bytes = 1, count = 600 } end,
  delay = function(r) return { pause = r:draw() * 0.05 }, { pause = r:draw() * 0.05 } end,
  stall = function(r) return { stall = r:draw() * 2 }, { stall = r:draw() * 2 } end,
  hang = function(r) return { after = r:draw(1, 800), finish = "hang" }, {} end,
  reset_up = function(r) return { after = r:draw(1, 40000), finish = "reset" }, {} end,
  reset_down = function(r) return {}, { after = r:draw(1, 4000), finish = "reset" } end,
  close_up = function(r) return { after = r:draw(1, 40000), finish = "close" }, {} end,
  close_down = function(r) return {}, { after = r:draw(1, 4000), finish = "close" } end,
  half_up = function(r) return { after = r:draw(1, 1500), finish = "half_up" }, {} end,
  half_down = function(r) return {}, { after = r:draw(1, 3000), finish = "half_down" } end,
}

--- Draws a plan. Returns its name and the faults of both directions: from and to the client.
function M.draw(random)
  local kind = random:choose(WEIGHTS)
  local up, down = DRAWS[kind](random)
  return kind, up, down
end

--- Sends data with the faults of a direction. Returns what `send` returns.
function M.deliver(to, data, faults, random)
  if faults.stall then
    loop.sleep(faults.stall)
    faults.stall = nil
  end
  if faults.pause then loop.sleep(random:draw() * faults.pause) end
  local at = 1
  while faults.bytes and faults.count > 0 and at <= #data do
    faults.count = faults.count - 1
    if not to:send(data:sub(at, at + faults.bytes - 1)) then return nil end
    at = at + faults.bytes
    if faults.count % 8 == 0 then loop.sleep(0.001) end
  end
  return at > #data or to:send(data:sub(at))
end

local held = {}

--- Waits until two further connections wait here, or 0.3 s. The last one continues first.
function M.hold()
  held[#held + 1] = loop.running()
  local last = #held
  if last == 3 then
    for i = 2, 1, -1 do loop.wakeup(held[i]) end
    held = {}
    return
  end
  local group = held
  loop.sleep(0.3)
  for i, co in ipairs(group) do
    if co == loop.running() and group == held then table.remove(held, i) break end
  end
end

return M
