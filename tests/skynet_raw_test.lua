-- Protocols without `pack` and `unpack`, whose messages are bytes: `rawcall`, `rawsend` and `redirect`.
-- The programs may use: skynet

local kit = require "tests.kit.skynet_system"

kit.test("rawcall, rawsend and redirect pass the bytes of a protocol without functions to any protocol of that name", {
  services = {
    strings = [[
      skynet.register_protocol { name = "client", id = skynet.PTYPE_CLIENT, unpack = skynet.tostring }
      skynet.start(function()
        skynet.dispatch("client", function(session, _, ...)
          if session == 0 then return say("strings", ...) end
          skynet.ret(table.concat({ "strings", select("#", ...), (...) }, " "))
        end)
      end)
    ]],
    values = [[
      skynet.register_protocol { name = "client", id = skynet.PTYPE_CLIENT, pack = skynet.pack, unpack = skynet.unpack }
      skynet.start(function()
        skynet.dispatch("client", function(session, _, ...)
          if session == 0 then return say("values", ...) end
          skynet.retpack("values", ...)
        end)
      end)
    ]],
    mute = [[
      skynet.register_protocol { name = "client", id = skynet.PTYPE_CLIENT }
      skynet.start(function()
        skynet.dispatch("client", function() error "not reached" end)
      end)
    ]],
    none = "skynet.start(function() skynet.dispatch_unknown_request(function(...) say('unknown', ...) end) end)",
  },
  main = [[
    skynet.register_protocol { name = "client", id = skynet.PTYPE_CLIENT }
    local strings, values = skynet.newservice "strings", skynet.newservice "values"
    local mute, none = skynet.newservice "mute", skynet.newservice "none"
    say(skynet.rawcall(strings, "client", "a\0b"))
    say(skynet.rawcall(strings, skynet.PTYPE_CLIENT, ""))
    say(skynet.unpack(skynet.rawcall(values, "client", skynet.pack(1, nil, "x"))))
    say(skynet.unpack(skynet.rawcall(values, "client", skynet.packstring("y"))))
    say(skynet.rawsend(strings, "client", "sent"))
    say(skynet.rawsend(values, "client", skynet.pack(2, 3)))
    say(skynet.redirect(strings, 5, "client", 0, "redirected"))
    skynet.rawcall(strings, "client", "after")
    say(skynet.rawsend(none, "client", "lost"))
    local function try(...)
      local ok, problem = pcall(...)
      say(ok, type(problem) == "table" and problem.message or (problem:gsub("^.*/", ""):gsub("%d+", "N")))
    end
    try(skynet.rawcall, none, "client", "lost")
    try(skynet.rawcall, mute, "client", "text")
    try(skynet.rawcall, strings, "client", {})
    try(skynet.call, strings, "client", "text")
    try(function() skynet.call(strings, "client", "text") end)
    try(function() skynet.send(strings, "client", "text") end)
  ]],
  err = "error in a request from :00000003, session %d+: the protocol 'client' has no function unpack",
  out = function(out)
    local of_main, others = {}, {}
    for _, line in ipairs(kit.lines(out)) do
      local list = line:find "^strings\t" or line:find "^values\t%d\t%d$" or line:find "^unknown"
      table.insert(list and others or of_main, line)
    end
    table.sort(others)
    local t = require "tests.kit"
    t.eq(others, { "strings\tredirected", "strings\tsent", "unknown\t0\t3\tlost\t4\tclient", "values\t2\t3" })
    local missing = "the protocol 'client' has no function pack: pass one to register_protocol, or use "
    t.eq(of_main, {
      "strings 1 a\0b\t13", "strings 1 \t10", "values\t1\tnil\tx", "values\ty", "true", "true", "true", "true",
      "false\tservice N (none) has no handler for request 'client'",
      "false\tthe protocol 'client' has no function unpack: pass one to register_protocol",
      "false\ta message must be a string or a result of pack, not a table",
      "false\tmain.lua:N: call: " .. missing .. "rawcall",
      "false\tmain.lua:N: call: " .. missing .. "rawcall",
      "false\tmain.lua:N: send: " .. missing .. "rawsend",
    })
  end,
})

require "tests.kit".finish()
