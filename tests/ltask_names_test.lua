-- Every documented function exists, in the low-level modules inside and outside a service, and in the service library.
-- Other suites test what the functions do.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

local core <const> = [[ pack unpack unpack_remove remove send_message message_receipt send_message_direct
  recv_message self label worker_id worker_bind timer_add timer_update timer_sleep now walltime counter cpucost
  pushlog poplog get_pushlog mem_limit mem_count touch_service eventinit eventreset backtrace debuglog
  is_exclusive mainthread_enter mainthread_leave mainthread_yield ]]

local library <const> = [[ call send send_direct syscall sleep timeout fork wait wakeup interrupt multi_wait
  multi_wakeup multi_interrupt current_token running dispatch no_response current_session suspend raise_error
  error async request parallel spawn spawn_service uniqueservice queryservice register kill servicepath quit
  idle_handler schedule_message dispatch_wakeup mainthread_run thread_info on_full ]]

local bootstrap <const> = [[ init init_timer init_socket init_root pushlog pack unpack remove unpack_remove
  new_service new_thread preinit new_service_preinit post_message run wait deinit external_sender log_sender
  mainthread_wait ]]

local root <const> = " init_service close_service set_exit_code "
local exclusive <const> = " send scheduling timer_update sleep eventinit eventreset "

local missing <const> = [[
  local function missing(module, names)
    local list = {}
    for name in names:gmatch "%S+" do
      if type(module[name]) ~= "function" then list[#list + 1] = name end
    end
    return table.concat(list, " ")
  end
]]

-- Returns code that prints the elements of `names` that are not functions of the module `name`.
local function names_of(name, names)
  return string.format("%s say(%q, missing(require %q, %q))\n", missing, name, name, names)
end

kit.test("the low-level modules have every function", {
  root = "raw.next()\n" .. names_of("ltask", core) .. names_of("ltask.root", root) .. [[
    local exclusive
    repeat exclusive = select(4, raw.next()) until exclusive
    say("ltask.exclusive", exclusive:sub(2))
  ]],
  before = "local source = " .. kit.literal(missing .. [[
      local ltask, exclusive = require "ltask", require "ltask.exclusive"
      exclusive.send(1, 0, 1, ltask.pack("=" .. missing(exclusive, "]] .. exclusive .. [[")))
      coroutine.yield()
    ]]) .. "\n" .. [[
      boot.new_service("exclusive", source, 2)
      boot.new_thread(2)
      start(2)
    ]],
  out = { "ltask\t", "ltask.root\t", "ltask.exclusive\t" },
})

t.test("ltask.bootstrap has every function, and ltask can pack outside a service", function()
  local say <const> = "local say = print\n"
  local r = kit.program(say .. names_of("ltask.bootstrap", bootstrap)
    .. names_of("ltask", "pack unpack unpack_remove remove"))
  t.eq(r.err, "")
  t.eq(r.out, "ltask.bootstrap\t\nltask\t\n")
end)

kit.test("the service library has every function, including those of the low-level module", {
  main = names_of("ltask", core .. library) .. names_of("ltask", "") .. [[
    say(type(ltask.log.info), type(ltask.log.error))
    say(rawequal(require "ltask", ltask))
  ]],
  out = { "ltask\t", "ltask\t", "function\tfunction", "true" },
})

-- ---------------------------------------------------------------------------------------------
-- Handlers and boot fields that belong to no other topic

kit.test("the function that a service assigns to ltask.signal_handler gets signals", {
  services = { listener = [[
    local S, heard = {}, nil
    assert(ltask.signal_handler == nil)
    function ltask.signal_handler(from) heard = from end
    function S.heard() return heard end
    return S
  ]] },
  main = [[
    local a = ltask.spawn "listener"
    ltask.send_message_direct(a, 0, 4)
    say(ltask.call(a, "heard") == ltask.self())
  ]],
  out = { "true" },
})

kit.test("preload runs in every service before its file", {
  services = { plain = "local S = {} local at = MARK function S.mark() return at end return S" },
  config = { preload = "MARK = 'preloaded'" },
  main = [[
    say(ltask.call(ltask.spawn "plain", "mark"))
    say(MARK)
  ]],
  out = { "preloaded", "preloaded" },
})

kit.test("services do not share globals", {
  services = { plain = "local S = {} function S.get() return SHARED end function S.set(x) SHARED = x end return S" },
  main = [[
    SHARED = "main's"
    local a, b = ltask.spawn "plain", ltask.spawn "plain"
    ltask.call(a, "set", "a's")
    say(ltask.call(a, "get"), ltask.call(b, "get"), SHARED)
  ]],
  out = { "a's\tnil\tmain's" },
})

kit.test("a service has the standard libraries, and finds modules in lua_path", {
  modules = { helper = "return { name = 'helper' }" },
  main = [[
    for _, name in ipairs { "string", "table", "math", "io", "os", "utf8", "debug", "coroutine", "package" } do
      assert(type(_G[name]) == "table", name)
    end
    say(require "helper".name, _VERSION:find "^Lua 5%." ~= nil)
    say(type(require "lio.json".encode), type(require "lio"))
  ]],
  out = { "helper\ttrue", "function\ttable" },
})

t.finish()
