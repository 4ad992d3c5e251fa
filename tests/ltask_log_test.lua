-- The log: log.info, log.error and print of services, the default logger's lines, and a logger
-- written by somebody else.

package.path = (arg[0]:match "^.*/" or "./") .. "../?.lua;" .. package.path
local t = require "tests.kit"
local kit = require "tests.ltaskkit"

local stamp <const> = "^%[%d%d%d%d%-%d%d%-%d%d %d%d:%d%d:%d%d%.%d%d%]"

kit.both("log.info goes to the output, log.error to the errors, with time, level, id and label", {
  services = { talker = [[
    local S = {}
    function S.talk()
      ltask.log.info("hello", 1, nil, true, setmetatable({}, { __tostring = function() return "object" end }))
      ltask.log.error("trouble", 2.5)
      ltask.log.info()
      return ltask.self()
    end
    return S
  ]] },
  main = [[ say("id", ltask.call(ltask.spawn "talker", "talk")) ]],
  err = false,
  out = function(out, err)
    local id = out:match "id\t(%d+)\n"
    local info, errors
    for _, line in ipairs(kit.lines(out)) do
      if line:find "hello" then info = line end
    end
    for _, line in ipairs(kit.lines(err)) do
      if line:find "trouble" then errors = line end
    end
    t.ok(info and info:find(stamp .. "%[INFO%]%(" .. id .. " talker%) hello\t1\tnil\ttrue\tobject$"), out)
    t.ok(errors and errors:find(stamp .. "%[ERROR%]%(" .. id .. " talker%) trouble\t2%.5$"), err)
  end,
})

kit.both("print of a service is log.info", {
  main = [[
    print("printed", 1, nil, {} ~= nil)
    print "second"
  ]],
  out = function(out)
    local lines = kit.lines(out)
    t.eq(#lines, 2, out)
    t.ok(lines[1]:find(stamp .. "%[INFO%]%(%d+ main%) printed\t1\tnil\ttrue$"), lines[1])
    t.ok(lines[2]:find(stamp .. "%[INFO%]%(%d+ main%) second$"), lines[2])
  end,
})

kit.both("lines of one service stay in order; those of many are whole", {
  services = { talker = [[
    local me = ...
    local S = {}
    function S.talk(n)
      for i = 1, n do ltask.log.info("from", me, i, ("x"):rep(100)) end
    end
    return S
  ]] },
  main = [[
    local async = ltask.async()
    for i = 1, 8 do async:request(ltask.spawn("talker", i), "talk", 500) end
    async:wait()
  ]],
  out = function(out)
    local last, count = {}, 0
    for _, line in ipairs(kit.lines(out)) do
      local who, i = line:match(stamp .. "%[INFO%]%(%d+ talker%) from\t(%d)\t(%d+)\t" .. ("x"):rep(100) .. "$")
      t.ok(who, line)
      t.eq(tonumber(i), (last[who] or 0) + 1)
      last[who], count = tonumber(i), count + 1
    end
    t.eq(count, 4000)
  end,
})

kit.both("long texts, texts of several lines and of any bytes are written whole", {
  main = [[
    ltask.log.info(("long"):rep(50000) .. " end")
    ltask.log.info "one\ntwo\nthree"
    ltask.log.info "zero \0 and \xff after"
    ltask.log.info "100% %s %d"
  ]],
  out = function(out)
    t.ok(out:find(("long"):rep(1000), 1, true) and out:find("long end\n", 1, true))
    t.ok(out:find("one\ntwo\nthree\n", 1, true), "several lines")
    t.ok(out:find("zero \0 and \xff after\n", 1, true), "bytes")
    t.ok(out:find("100% %s %d\n", 1, true), "percent signs")
  end,
})

kit.both("what is logged is written soon, not only at the end", {
  main = [[
    ltask.log.info "early"
    ltask.sleep(30)
    say "later"
  ]],
  out = function(out)
    t.ok(out:find "early\n.*later\n", out)
  end,
})

-- As loggers for ltask have always been written: a service that empties the log by poplog.
local own_logger <const> = [[
  local S = {}
  local function write()
    while true do
      local now, id, p, n = ltask.poplog()
      if not now then break end
      local level, text = ltask.unpack_remove(p, n)
      say("OWN", math.abs(now - os.time() * 100) < 500, math.type(id), level, text)
    end
  end
  ltask.fork(function()
    while true do
      write()
      ltask.sleep(1)
    end
  end)
  function S.quit() write() end
  return S
]]

kit.both("a logger of one's own gets time, id, level and text", {
  services = { mylogger = own_logger },
  config = { logger = { "mylogger" } },
  main = [[
    ltask.log.info "by info"
    ltask.log.error "by error"
    print "by print"
    ltask.sleep(5)
    ltask.log.info "at the end"
  ]],
  out = function(out, err)
    t.eq(err, "")
    local lines = kit.lines(out)
    t.eq(#lines, 4, out)
    for i, want in ipairs {
      "info\t.*by info$", "error\t.*by error$", "info\t.*by print$", "info\t.*at the end$",
    } do
      t.ok(lines[i]:find("^OWN\ttrue\tinteger\t" .. want), lines[i])
    end
  end,
})

t.finish()
