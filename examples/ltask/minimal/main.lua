-- The smallest system, on the low-level modules alone: one service, and no service library.
-- `lio examples/ltask/minimal/main.lua` runs a service that prints six lines, and ends.
--
-- Programs use `ltask.start` instead, as pingpong does. `ltask.start` itself uses these modules.

local boot = require "ltask.bootstrap"

local folder = arg[0]:match "^.*/" or "./"
local ROOT <const> = 1
local SYSTEM <const> = 0 -- a type of message

boot.init {}
boot.new_service("root", "@" .. folder .. "service.lua", ROOT)

-- A service runs when it has a message. Without this message it would wait forever.
local message, size = boot.pack("init", { name = "root" })
boot.post_message { from = ROOT, to = ROOT, session = 0, type = SYSTEM, message = message, size = size }

print "ltask Start"
io.stdout:flush()
boot.run() -- until service 1 has ended
