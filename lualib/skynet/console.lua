-- The service `console` of skynet, which `skynet.newservice "console"` creates: reads lines of the standard input, and
-- starts the service that a line names, with the other words as its arguments. At the end of the input it ends.

local skynet = require "skynet"
local socket = require "skynet.socket"

local function start(line)
  local words = {}
  for word in line:gmatch "%S+" do words[#words + 1] = word end
  if #words == 0 then return end
  local ok, problem = pcall(skynet.newservice, table.unpack(words))
  if not ok then skynet.error(("console: %s"):format(type(problem) == "table" and problem.message or problem)) end
end

local function run()
  local id, problem = socket.stdin()
  if not id then skynet.error(("console: %s"):format(problem)) end
  local line = id and socket.readline(id, "\n")
  while line do
    start(line)
    line = socket.readline(id, "\n")
  end
  skynet.exit()
end

skynet.start(function() skynet.fork(run) end)
