-- The programs of examples/skynet do what their first lines describe, in this suite's host, with any number of workers,
-- and from another folder. The gate of docs/skynet-network.md works in the second program.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"
local skynet_kit = require "tests.kit.skynet_system"

local folder = t.root .. "examples/skynet/"

-- The lines that the services write to the log, without their time, level and service.
local said <const> = { "waited for:\tlarge", "colour\tred", "count\t10", "size\tlarge" }

local function check(r)
  t.eq({ r.err, r.code }, { "", 0 })
  local lines = {}
  for i, line in ipairs(kit.lines(r.out)) do
    lines[i] = line:match "^%[[%d-]+ [%d:.]+%]%[INFO%]%(3 main%) (.*)$" or line
  end
  t.eq(lines, said)
end

t.test("run.lua boots the services of its folder, the services log their values, and run.lua ends", function()
  check(t.run(("cd / && timeout -k 1 60 %s %s"):format(kit.host(), t.quote(folder .. "run.lua"))))
end)

for _, workers in ipairs(kit.workers) do
  t.test(("the services log the same values on %d worker%s"):format(workers, workers > 1 and "s" or ""), function()
    check(kit.program(([[
      os.exit(require "skynet.start" {
        start = "main", thread = %d, luaservice = %q, lua_path = package.path, lua_cpath = package.cpath,
      }, true)
    ]]):format(workers, folder .. "?.lua")))
  end)
end

t.test("the store raises an error for an unknown command, and continues", function()
  local r = kit.program(([[
    local dir = %q
    package.path = package.path .. ";" .. dir .. "?.lua"
    require "ltask.start" {
      service_path = dir .. "?.lua", lua_path = package.path, lua_cpath = package.cpath,
      bootstrap = { { name = "asker", source = [=[
        local ltask = require "ltask"
        ltask.fork(function()
          local store = ltask.spawn("store", "name", "value")
          local ok, problem = pcall(ltask.call, store, "lua", "forget")
          print(ok, problem.message:match "there is no command 'forget'$")
          print(ltask.call(store, "lua", "set", "name", 2), ltask.call(store, "lua", "get", "name"))
          ltask.send(1, "quit_ltask")
        end)
      ]=] } },
    }
  ]]):format(folder))
  t.ok(r.err:find "%(4 store%) error in a request from :00000003, session %d+: .*there is no command 'forget'", r.err)
  local lines = {}
  for line in r.out:gmatch "%(3 asker%) ([^\n]*)" do lines[#lines + 1] = line end
  t.eq(lines, { "false\tthere is no command 'forget'", "value\t2" })
end)

-- The game ----------------------------------------------------------------------------------------------

-- Runs the game in `dir`, and checks what its client prints. `echo`: the answer of the echo server.
local function check_game(dir, workers, echo)
  local config = t.tmp() .. "/config"
  t.write(config, ("thread = %d\necho_port, login_port, game_port = %d, %d, %d\n")
    :format(workers, skynet_kit.free_ports(3)))
  local r = t.run(("cd / && timeout -k 1 60 %s %s %s"):format(kit.host(), t.quote(dir .. "run.lua"), t.quote(config)))
  t.eq({ r.err, r.code }, { "", 0 })
  local lines = {}
  for line in r.out:gmatch "%(%d+ client%) ([^\n]*)" do lines[#lines + 1] = line end
  t.eq(lines, {
    echo, "401 Unauthorized", "200 MQ==", "200 OK", "ann, request 1: look", "200 OK", "ann, request 1: look",
    "ann, request 2: walk",
  })
end

for _, workers in ipairs(kit.workers) do
  t.test(("the client of the game uses all servers, on %d worker%s"):format(workers, workers > 1 and "s" or ""),
    function() check_game(folder .. "game/", workers, "echo: hello") end)
end

t.test("the configuration of the game names its ports", function()
  local config = require "skynet.start".config(folder .. "game/config")
  t.eq({ config.start, config.thread, config.echo_port, config.login_port, config.game_port },
    { "main", 2, 8888, 8001, 8002 })
end)

t.test("the watchdog and the agent of docs/skynet-network.md serve the client of the game", function()
  local dir = t.tmp() .. "/"
  os.execute(("cp %s %s"):format(t.quote(folder .. "game/") .. "*.lua", t.quote(dir)))
  local count = 0
  for source in io.open(t.root .. "docs/skynet-network.md"):read "a":gmatch "\n```lua\n(.-)```" do
    local name = source:match "^%-%- (%w+)%.lua\n"
    if name then
      t.write(dir .. name .. ".lua", source)
      count = count + 1
    end
  end
  t.eq(count, 2)
  check_game(dir, 2, "hello")
end)

t.finish()
