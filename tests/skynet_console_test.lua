-- The services `debug_console`, `console` and `.launcher` of skynet, and `socket.stdin`.
-- The programs may use: skynet, serve, talk

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"
local skynet_kit = require "tests.kit.skynet_system"

local port <const> = skynet_kit.free_ports(1)

-- One line of source: `talk(text)` sends text to the debug console, and returns the lines of its answer.
local talk <const> = (([[
  local function talk(text)
    local socket = require "skynet.socket"
    local id = assert(socket.open("127.0.0.1", %d))
    socket.write(id, text)
    local lines = {}
    local line = socket.readline(id, "\n")
    while line do
      lines[#lines + 1] = line
      if line:find "^<CMD" and not text:find "^GET" then break end
      line = socket.readline(id, "\n")
    end
    socket.close(id)
    return table.concat(lines, "|")
  end ]]):format(port):gsub("\n", " "))

local server <const> = [[
  skynet.info_func(function(...) return { name = "server", args = select("#", ...) } end)
  function CMD.add(a, b) return a + b end
  serve()
]]

skynet_kit.test("the debug console answers the commands of a line, and requests of HTTP", {
  services = { server = server },
  main = talk .. ([[
    local server = skynet.address(skynet.newservice "server")
    local console = skynet.address(skynet.newservice("debug_console", %d))
    say(talk "list\r\n" == ":00000003\tmain|" .. server .. "\tserver|" .. console .. "\tdebug_console|<CMD OK>")
    say(talk("info " .. server .. " x y\n"))
    say(talk("call " .. server .. " \"add\", 20, 22\n"))
    say(talk("call " .. server .. " (\n"))
    say((talk("ping " .. server .. "\n"):gsub("^%%d+", "N")))
    say((talk "mem 100\n":gsub("[%%d.]+ Kb", "N Kb"):gsub(":%%x+", "A"):gsub("A\tERROR %%(main%%)|", "")))
    say(talk "stat\n":match(server .. "\t(cpu:)") )
    say(talk "start server\n":match "^:%%x+\tserver|<CMD OK>$" ~= nil)
    say(talk "start nowhere\n":match "^cannot find service 'nowhere'" ~= nil)
    say(talk("kill " .. server .. "\n") == server .. "\tserver|<CMD OK>")
    say(talk "getenv none\n", talk "setenv color red\n", talk "getenv color\n")
    say(talk "kill\n", talk "ping .none\n", talk "ping absent\n", talk "foo\n", talk "trace 1 x\n")
    say((talk "GET /getenv/color HTTP/1.1\r\nHost: x\r\n\r\n"))
    say(talk "help\n":find "list\tthe services|" ~= nil)
  ]]):format(port),
  out = function(out)
    t.eq(kit.said(out), {
      "true", "args\t2|name\tserver|<CMD OK>", "1\t42|<CMD OK>",
      "call:1: unexpected symbol near <eof>|<CMD Error>", "N|<CMD OK>",
      "A\tN Kb (server)|A\tN Kb (debug_console)|<CMD OK>", "cpu:", "true", "true", "true",
      "<CMD OK>\t<CMD OK>\tred|<CMD OK>",
      "an address is missing|<CMD Error>\tthere is no service .none|<CMD Error>\t"
        .. "'absent' is not an address, such as :0000000a|<CMD Error>\t"
        .. "Invalid command, type help for command list|<CMD Error>\t'on' or 'off' expected|<CMD Error>",
      "HTTP/1.1 200 OK\r|content-length: 13\r|\r|red|<CMD OK>", "true",
    })
  end,
})

skynet_kit.test("the launcher lists services, asks them, and ends them", {
  services = { server = server, mute = "return { wait = function() end }" },
  main = [[
    local server = skynet.newservice "server"
    local mute = skynet.newservice "mute"
    local function ask(...) return skynet.call(".launcher", "lua", ...) end
    local list = ask "LIST"
    say(list[skynet.address(server)], list[skynet.address(mute)], list[skynet.address(skynet.self())])
    list[skynet.address(server)], list[skynet.address(mute)], list[skynet.address(skynet.self())] = nil, nil, nil
    say(next(list))
    local stat = ask("STAT", 100)
    say(type(stat[skynet.address(server)].message), stat[skynet.address(mute)])
    say("memory" .. ask("gc", 100)[skynet.address(server)]:match " Kb %(server%)$")
    say(ask("REMOVE", server), ask("KILL", server)[skynet.address(server)])
    say(pcall(skynet.call, server, "lua", "add", 1, 2))
    say(ask "LIST"[skynet.address(server)])
    say((select(2, pcall(ask, "UNKNOWN")).message))
  ]],
  err = "%.launcher: there is no command 'UNKNOWN'",
  out = function(out)
    local lines = kit.said(out)
    lines[6] = lines[6]:gsub("%d+", "N")
    t.eq(lines, {
      "server\tmute\tmain", "nil", "number\tERROR", "memory Kb (server)", "nil\tserver",
      "false\t{service:N} is dead", "nil",
      ".launcher: there is no command 'UNKNOWN'",
    })
  end,
})

-- The standard input ---------------------------------------------------------------------------------

-- Boots a system whose first service is main. `before` and `after`: what precedes and follows the command of the
-- program in the shell.
local function run(services, before, after)
  local dir = t.tmp()
  for name, source in pairs(services) do t.write(dir .. "/" .. name .. ".lua", source) end
  t.write(dir .. "/run.lua", "os.exit(require 'skynet.start' 'main', true)")
  return t.run(("cd %s && %s timeout -k 1 60 %s run.lua %s")
    :format(t.quote(dir), before or "", kit.host(), after or ""))
end

-- Returns the lines of a log, without their times, sorted.
local function log_lines(text)
  local lines = {}
  for i, line in ipairs(kit.lines(text)) do lines[i] = line:gsub("^%[.-%]", "") end
  table.sort(lines)
  return lines
end

t.test("stdin reads from a pipe, a file and an empty device", function()
  local main = [[
    local skynet = require "skynet"
    local socket = require "skynet.socket"
    skynet.start(function()
      local id = socket.stdin()
      local line, rest
      repeat
        line, rest = socket.readline(id)
        print(line, rest)
      until not line
      skynet.exit()
    end)
  ]]
  local file = t.tmp() .. "/input"
  t.write(file, "one\ntwo\nend")
  local want = { "[INFO](3 main) false\tend", "[INFO](3 main) one\tnil", "[INFO](3 main) two\tnil" }
  local r = run({ main = main }, "cat " .. t.quote(file) .. " |")
  t.eq({ r.err, r.code, log_lines(r.out) }, { "", 0, want })
  r = run({ main = main }, nil, "< " .. t.quote(file))
  t.eq({ r.err, r.code, log_lines(r.out) }, { "", 0, want })
  r = run({ main = main }, nil, "< /dev/null")
  t.eq({ r.err, r.code, log_lines(r.out) }, { "", 0, { "[INFO](3 main) false\t" } })
end)

t.test("the console starts the service of each line, and ends with its input", function()
  local r = run({
    main = [[
      local skynet = require "skynet"
      skynet.start(function()
        skynet.newservice "console"
        skynet.exit()
      end)
    ]],
    greeter = "print('hello', ...) require 'skynet'.start(require 'skynet'.exit)",
  }, [[printf 'greeter ann  7\n\nabsent\ngreeter\n' |]])
  t.eq({ r.err, r.code }, { "", 0 })
  local lines = {}
  for i, line in ipairs(log_lines(r.out)) do lines[i] = line:gsub("%(%d+ ", "(N ") end
  table.sort(lines)
  t.eq(lines, {
    "\tno file './absent.lua'", "[INFO](N console) console: cannot find service 'absent':",
    "[INFO](N greeter) hello", "[INFO](N greeter) hello\tann\t7",
  })
end)

t.test("a first service in the form of skynet's example runs unchanged", function()
  local console_port, gate_port = skynet_kit.free_ports(2)
  local r = run({
    main = ([[
      local skynet = require "skynet"
      local max_client = 64
      skynet.start(function()
        skynet.error("Server start")
        if not skynet.getenv "daemon" then
          local console = skynet.newservice("console")
        end
        skynet.newservice("debug_console", %d)
        skynet.newservice("simpledb")
        local watchdog = skynet.newservice("watchdog")
        local addr, port = skynet.call(watchdog, "lua", "start", {
          address = "127.0.0.1", port = %d, maxclient = max_client, nodelay = true,
        })
        skynet.error("Watchdog listen on " .. addr .. ":" .. port)
        skynet.send("SIMPLEDB", "lua", "stop")
        skynet.exit()
      end)
    ]]):format(console_port, gate_port),
    simpledb = [[
      local skynet = require "skynet"
      require "skynet.manager"
      skynet.start(function()
        skynet.dispatch("lua", function() skynet.abort() end)
        skynet.register "SIMPLEDB"
      end)
    ]],
    watchdog = [[
      local skynet = require "skynet"
      skynet.start(function()
        local gate = skynet.newservice "gate"
        skynet.dispatch("lua", function(_, _, _, conf) skynet.retpack(skynet.call(gate, "lua", "open", conf)) end)
      end)
    ]],
  }, nil, "< /dev/null")
  t.eq({ r.err, r.code }, { "", 0 })
  for _, text in ipairs {
    "(3 main) Server start", "debug_console) Start debug console at 127.0.0.1:" .. console_port,
    "(3 main) Watchdog listen on 127.0.0.1:" .. gate_port,
  } do
    t.ok(r.out:find(text, 1, true), r.out)
  end
end)

t.finish()
