-- `lio --watch` under load: 64 clients send requests, half of them on a new connection for each request, while the
-- server restarts 50 times, because of changed files and SIGHUP. No connection may be refused, and every request must
-- be answered.

local t = require "tests.kit"
local kit = require "tests.kit.watched_program"

local CLIENTS <const>, RESTARTS <const> = 64, 50

local function version(i) return kit.server(('"version %d"'):format(i)) end

t.test("64 connections and 50 restarts: no connection is refused and no request is lost", function()
  local p <close> = kit.start { ["server.lua"] = version(1) }
  local port = p:serving()
  p:settled()
  local count = kit.hammer(port, CLIENTS, function(count)
    for i = 1, RESTARTS do
      if i > 1 then p:write("server.lua", version(i)) end
      kit.until_counted(count, "version " .. i, 200)
      if i % 5 == 0 then
        p.child:kill "HUP"
        kit.until_counted(count, "version " .. i, 600)
      end
    end
  end)
  print(count.answered .. " requests were answered")
  t.eq((p:stop "INT"), 0)
end)

t.finish()
