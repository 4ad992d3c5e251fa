-- The client of run.lua: lio client.lua KIND PORT PID ROUNDS. In each round, 64 connections send requests while the
-- server, the process PID, is stopped. Then the server continues, and the client waits for all responses.

local loop = require "lio.loop"
local net = require "lio.net"

local kind, port, pid, rounds = arg[1], math.tointeger(arg[2]), arg[3], math.tointeger(arg[4])
local COUNT <const> = 64

local function get(path, more) return ("GET %s HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n%s\r\n"):format(path, more or "") end

local body <const> = ("x"):rep(1024)
-- By kind: the bytes of the request, the number of requests that are sent together (default 1), and whether each round
-- opens new connections.
local KINDS <const> = {
  hello = { get "/" },
  pipelined = { get "/", times = 16 },
  connections = { get("/", "Connection: close\r\n"), reconnect = true },
  post = { "POST /echo HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Length: 1024\r\n\r\n" .. body },
  json = { get "/users/7/posts/42" },
  echo = { ("x"):rep(64) },
}
local load <const> = assert(KINDS[kind], "no such kind")
local data <const> = load[1]:rep(load.times or 1)

local function signal(name) assert(os.execute(("kill -%s %s"):format(name, pid))) end

local function connect() return assert(net.connect("127.0.0.1", port)) end

loop.run(function()
  local list, length = {}, nil
  if not load.reconnect then
    for i = 1, COUNT do list[i] = connect() end
    -- Measures the length of a response. Also ensures that the server has accepted all connections before the rounds.
    for _, c in ipairs(list) do
      assert(c:send(load[1]))
      local response = assert(c:recv())
      loop.sleep(0)
      length = length or #response * (load.times or 1)
      assert(kind == "echo" or response:find "^HTTP/1.1 200", response)
    end
  end
  for _ = 1, rounds do
    signal "STOP"
    if load.reconnect then for i = 1, COUNT do list[i] = connect() end end
    for _, c in ipairs(list) do assert(c:send(data)) end
    signal "CONT"
    for _, c in ipairs(list) do
      assert(c:recv(length or "all"))
      if load.reconnect then c:close() end
    end
  end
end)
