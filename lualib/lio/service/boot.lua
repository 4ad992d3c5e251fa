-- Boots the scheduler for `lio --service script.lua`, with one service, which owns a loop and runs the script as its
-- main task. The script may spawn other services; the process ends when all services have ended. Run by the executable.

local core = require "ltask.core"
local start = require "ltask.start"

local script = ...
local source, chunkname = core.embedded_source "lio.service"
local folder = script:match "^(.*/)[^/]*$" or "./"

local code = start.start {
  service_path = folder .. "?.lua;./?.lua",
  bootstrap = {
    { name = "lio", label = script:match "[^/]*$", source = source, chunkname = chunkname, args = { ... } },
  },
}
os.exit(code, true)
