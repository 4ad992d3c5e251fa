-- A server that restarts without losing a request: its version can change while clients connect.
--
--   lio --watch examples/restart/server.lua [PORT]     default 8080; 0: the system chooses
--
-- Then, in another terminal:
--
--   curl http://127.0.0.1:8080/              shows the answering process and its text
--   curl http://127.0.0.1:8080/slow          takes three seconds: start it, and restart meanwhile
--   pkill -HUP -o lio                        restarts; or change greeting.lua or greeting.txt
--
-- The process that has begun the slow request answers it. The new process serves later requests.

package.path = (arg[0]:match "^.*/" or "./") .. "?.lua;" .. package.path

local lio = require "lio"
local loop = require "lio.loop"
local web = require "lio.webserver"
local greeting = require "greeting"

-- This file is not loaded as Lua code, so only this call makes it watched.
local path = (arg[0]:match "^.*/" or "./") .. "greeting.txt"
lio.watch(path)
local file <close> = assert(io.open(path))
local text = file:read "a"

local started = os.date "%H:%M:%S"

local app = web.new { grace = 10 }

app:get("/", function()
  return ("%s from the process of %s\n%s"):format(greeting, started, text)
end)

app:get("/slow", function()
  loop.sleep(3)
  return ("slowly, from the process of %s\n"):format(started)
end)

app:run(math.tointeger(tonumber(arg[1])) or 8080, { addr = "127.0.0.1" })
