-- Counts the lines and words of each paragraph that a client sends: `lio examples/coroutine/paragraphs.lua`, then
-- `nc 127.0.0.1 7200`. An empty line ends a paragraph. The first argument is the port; with port 0 the system chooses a
-- port.
--
-- One generator produces lines; another generator loops over them and produces paragraphs. So `recv` waits two
-- coroutines deep, and meanwhile the other clients are served.

local coroutine = require "lio.coroutine" -- only needed in a stock Lua; elsewhere it is the global `coroutine`
local loop = require "lio.loop"
local net = require "lio.net"

local port = tonumber((...) or 7200)
local LONGEST <const> = 4000 -- maximum bytes of a line

local function lines(c)
  return coroutine.wrap(function()
    for line in function() return c:recv("line", LONGEST) end do
      coroutine.yield(line)
    end
  end)
end

-- `for line_count, word_count in paragraphs(c) do`
local function paragraphs(c)
  return coroutine.wrap(function()
    local line_count, word_count = 0, 0
    for line in lines(c) do
      if line:find "%S" then
        line_count = line_count + 1
        word_count = word_count + select(2, line:gsub("%S+", ""))
      elseif line_count > 0 then
        coroutine.yield(line_count, word_count)
        line_count, word_count = 0, 0
      end
    end
    if line_count > 0 then coroutine.yield(line_count, word_count) end
  end)
end

loop.grace = 0 -- a stop does not wait for clients to leave
loop.run(function()
  local listener = assert(net.listen("127.0.0.1", port))
  print(("paragraphs: listening on %s:%d"):format(listener:address()))
  io.stdout:flush()
  net.serve(listener, function(c)
    for line_count, word_count in paragraphs(c) do
      c:send(("%d lines, %d words\n"):format(line_count, word_count))
    end
  end)
end)
