//! Makes each allocation of Lua fail once while a script uses the library. The script must then fail with "not enough
//! memory" or handle the error, and closing the VM must release everything.
//!
//! A memory error leaves native functions by longjmp, which would leak the values that they own. The test detects
//! leaked descriptors.

use super::{alone, descriptors_become, settled_descriptors};
use mlua::ffi;
use std::cell::Cell;
use std::ffi::{CStr, CString, c_void};

/// The number of allocations that succeed before every further allocation fails. If the number is negative, no
/// allocation fails.
struct Budget(Cell<i64>);

unsafe extern "C" fn allocate(budget: *mut c_void, block: *mut c_void, old: usize, new: usize) -> *mut c_void {
    // SAFETY: `budget` outlives the state, and all blocks come from realloc(3).
    unsafe {
        let Budget(left) = &*budget.cast::<Budget>();
        if new == 0 {
            libc::free(block);
            return std::ptr::null_mut();
        }
        if left.get() >= 0 && (block.is_null() || new > old) {
            if left.get() == 0 {
                return std::ptr::null_mut();
            }
            left.set(left.get() - 1);
        }
        libc::realloc(block, new)
    }
}

/// Runs `code` in a new VM where only the first `count` allocations succeed. Returns whether `code` ended normally and
/// needed fewer than `count` allocations. Code that catches errors can also end normally if it needs more allocations.
fn run(code: &CStr, count: i64) -> bool {
    // SAFETY: the state is created, used and closed here; `lua_pcall` catches errors.
    unsafe {
        let budget = Budget(Cell::new(-1));
        let state = ffi::luaL_newstate();
        assert!(!state.is_null());
        // The first allocator of the state also uses realloc(3).
        ffi::lua_setallocf(state, allocate, (&raw const budget).cast_mut().cast());
        for step in lio::private::PROGRAM {
            step.push(state, 0);
            ffi::lua_call(state, 0, 0);
        }
        assert_eq!(ffi::luaL_loadstring(state, code.as_ptr()), ffi::LUA_OK);
        budget.0.set(count);
        let status = ffi::lua_pcall(state, 0, 0, 0);
        let left = budget.0.replace(-1);
        if status != ffi::LUA_OK {
            let message = CStr::from_ptr(ffi::lua_tostring(state, -1)).to_string_lossy();
            assert!(message.contains("not enough memory"), "{count}: {message}");
        }
        ffi::lua_close(state);
        status == ffi::LUA_OK && left > 0
    }
}

fn fails_everywhere(code: &str) {
    let code = CString::new(code).expect("no NUL in the script");
    // The first run may open descriptors that stay open until the process ends.
    assert!(run(&code, i64::MAX));
    let before = settled_descriptors();
    let mut count = 0;
    while !run(&code, count) {
        count += 1;
        assert!(count < 20_000, "the script ends");
    }
    assert!(descriptors_become(before), "no descriptor is left open");
}

/// The scripts are in one test, because the descriptors of the process are counted for each of them.
#[test]
fn no_failing_allocation_leaks_anything() {
    let _turn = alone();
    for script in [SELECTOR, STREAM, WAITING, HTTP, TASK, COROUTINE, OTHERS] {
        fails_everywhere(script);
    }
}

const SELECTOR: &str = r#"
    local lio, socket = require "lio", require "lio.socket"
    local sel = lio.create(16)
    local a, b = socket.pair()
    local server = socket.create "tcp"
    assert(server:bind("127.0.0.1", 0))
    assert(server:listen())
    local client = socket.create "tcp"
    client:connect(server:info "socket")
    assert(sel:event_add(a, 1))
    assert(sel:event_add(server:handle(), 1, { "server" }))
    assert(sel:event_add({ handle = function() return b end }, 2))
    b:send("x", 1, 1)
    local accepted
    while not accepted do
      for udata in sel:wait(5) do
        if type(udata) == "table" and udata[1] == "server" then accepted = server:accept() end
      end
    end
    a:recv(100000)
    a:sendv("x", "y", 5)
    sel:event_mod(a, 0, "other")
    sel:event_del(b)
    local waker = sel:waker()
    lio.waker(waker:handle()):wake()
    local udp = socket.create "udp"
    udp:bind("127.0.0.1", 0)
    udp:sendto("hello", udp:info "socket")
    while not udp:recvfrom() do end
    coroutine.wrap(function() for _ in sel:wait(0) do coroutine.yield() end end)()
    assert(not pcall(socket.create, "nonsense"))
"#;

const STREAM: &str = r#"
    local lio, socket, stream = require "lio", require "lio.socket", require "lio.stream"
    local sel = lio.create(16)
    local a, b = socket.pair()
    local one, two = stream.new(sel, a), stream.new(sel, b)
    one:try_send(0, "one\n", 2, "\n", ("x"):rep(50), 4, 5, 6, 7, 8, 9, 10)
    two:try_recv "line"
    two:try_recv("until", "x")
    two:try_recv(10)
    two:try_recv()
    two:try_recv()
    one:address "peer"
    one:close_now()
    two:try_recv()
    two:try_recv(5)
    local server = socket.create "tcp"
    server:bind("127.0.0.1", 0)
    server:listen()
    stream.register_socket(sel, server)
    assert(stream.accept(sel, server) == false)
    local client = socket.create "tcp"
    client:connect(server:info "socket")
    local accepted
    while not accepted do
      for _ in sel:wait(5) do accepted = accepted or stream.accept(sel, server) end
    end
"#;

const WAITING: &str = r#"
    local lio, socket, stream = require "lio", require "lio.socket", require "lio.stream"
    local task = require "lio.task"
    task.on_error = function() end
    local sel = lio.create(16)
    local a, b = socket.pair()
    local one, two = stream.new(sel, a), stream.new(sel, b)
    local timers = require "lio.timer".new()
    stream.set_recv_timeout(one, 5, timers:create(one))
    local recv, send = stream.native_calls(timers, {
      recv_queued = task.wait, release = type, send_queued = task.wait, send_rest = task.wait,
    })
    local events = stream.events(sel, true)
    local got, ended
    task.fork(function() got = recv(two, "line") .. recv(two, 50) .. recv(two) end)
    task.fork(function() ended = pcall(recv, one, "all") end)
    task.fork(function() pcall(recv, one, "all") pcall(recv, one, "nonsense") pcall(send, one, {}) end)
    task.run_ready()
    stream.set_reader_queued(one)
    send(one, "li")
    for _, piece in ipairs { "ne\r\n", ("x"):rep(50), ("y"):rep(50) } do
      send(one, piece, 5)
      for _ = 1, 2 do
        local iterate, _, _, guard = sel:wait(0)
        for _ in events, nil, nil, guard do end
        task.run_ready()
      end
    end
    if not got then error "not enough memory" end
    task.interrupt(one, "enough")
    task.kill_all()
    while task.run_ready() do end
    task.fork(function() recv(one) end)
    task.run_ready()
    one:close_now()
    task.wakeup(one, "closed")
    task.run_ready()
"#;

const HTTP: &str = r#"
    local lio, socket, stream = require "lio", require "lio.socket", require "lio.stream"
    local http = require "lio.http"
    local sel = lio.create(16)
    local a, far = socket.pair()
    local s = stream.new(sel, a)
    local routes = http.routes()
    local id = routes:add("POST", "/u/:name/:x<%d+>")
    routes:constraints(id)
    far:send("POST /u/a%20b/5?k=1&k=%32&l HTTP/1.1\r\nHost: a\r\nX: 1\r\nx: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
      .. "3\r\nabc\r\n0\r\nT: 1\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxyGET\r\n\r\n")
    local server = http.server({
      request_line = 1000, headers = 1000, fields = 100, header_time = 10, keep_alive_time = 60, body_time = 10,
      body_rate = 240, write_time = 30, connections = 10, requests = 100, body = 1000,
    }, routes, sel)
    server:admit(s)
    local handled = 0
    local function handle(head)
      local request = http.request
      handled = handled + 1
      if handled == 1 then
        head:path() head:query() head:fields() head:field "x" head:field_all "x" head:params(routes, id)
        head:matches(routes)
        http.body_of(head)
        request.trailers(head)
        request.add_field(head, "A", "1")
        request.add_field(head, "B", 2)
        request.get_field(head, "a")
        request.respond(head, 200, "text/plain", ("z"):rep(100))
        assert(not pcall(request.respond, head, 200))
      else
        request.piece(head)
        request.add_field(head, "x-a", "b")
        request.begin_body(head, 200, "text/plain")
        request.queue_chunk(head, "data")
        request.end_body(head)
      end
    end
    server:set_callbacks {
      app_server = server,
      catch = function(message) return message end,
      handlers = { handle },
      response_class = {},
      choose_handler = function() return handle end,
      complete = function() return true end,
      fail = function(_, message) error(message, 0) end,
      notify = function() end,
    }
    http.serve(server:dispatcher())
    server:flush()
    server:close()
    http.parse_urlencoded "a=b&a=c&%20=+"
    http.percent_encode "a b"
"#;

const TASK: &str = r#"
    local task = require "lio.task"
    local kept
    for i = 1, 20 do task.fork(function(...) task.wait(i) end, i, 2, 3) end
    task.fork(function() kept = { pcall(task.wait, "slow") } end)
    while task.run_ready() do end
    task.wakeup(1, table.unpack({}, 1, 100))
    task.interrupt("slow", "enough")
    task.start(function() task.wait() end)
    task.kill(task.list()[1])
    for i = 2, 20 do task.wakeup(i) end
    task.kill_all()
    while task.run_ready() do end
    assert(task.count() == 0)
    task.on_error = function() end
    task.fork(error, "x")
    task.run_ready()
"#;

const COROUTINE: &str = r#"
    local task, coroutine = require "lio.task", require "lio.coroutine"
    task.on_error = function() end
    local seen = 0
    local function deep(n)
      if n == 0 then return task.wait "deep" end
      local co = coroutine.create(deep)
      local ok, value = coroutine.resume(co, n - 1)
      coroutine.status(co)
      seen = seen + 1
      return ok and value
    end
    local function items()
      for i = 1, 3 do
        task.wait(i)
        coroutine.yield(i, table.unpack({}, 1, 40))
      end
    end
    local inner
    task.fork(deep, 10)
    task.fork(function() for i in coroutine.wrap(items) do seen = seen + i end end)
    task.fork(function()
      inner = coroutine.create(function() local _ <close> = setmetatable({}, { __close = print and type }) task.wait "closed" end)
      coroutine.resume(inner)
    end)
    task.fork(function() coroutine.wrap(function() task.wait {} end)() end)
    task.fork(function() coroutine.wrap(function() task.wait "killed" end)() end)
    task.fork(function() pcall(table.sort, { 2, 1 }, function() task.wait "sort" end) end)
    task.fork(function() task.spawn(function() task.wait "spawned" end) task.watch_end() end)
    task.on_end(function() seen = seen + 1 end)
    while task.run_ready() do end
    assert(coroutine.close(inner))
    task.wakeup("deep", 1, 2)
    for i = 1, 3 do task.wakeup(i) while task.run_ready() do end end
    for _, co in ipairs(task.list()) do task.look(co) end
    -- After two cycles of the collector the wait is weak, and in the third the lost task is found.
    for _ = 1, 3 do collectgarbage() while task.run_ready() do end end
    task.kill_all()
    while task.run_ready() do end
    assert(task.count() == 0)
"#;

const OTHERS: &str = r#"
    local timers = require "lio.timer".new()
    local id = timers:create {}
    timers:set(id, 0)
    timers:add(0, {})
    timers:expire()
    timers:cancel(id)
    local signal = require "lio.signal"
    local watcher = signal.open("SIGUSR1", "SIGUSR2")
    watcher:take()
    local socket = require "lio.socket"
    tostring(socket.endpoint("inet6", "::1", 5))
    socket.endpoint("unix", "\0name"):value()
    socket.gethostname()
    local resolver = require "lio.resolver"
    resolver.is_numeric "fe80::1"
    local sel = require "lio".create()
    local names = resolver.new(sel:waker())
    names:query "127.0.0.1"
    while not names:answer() do for _ in sel:wait(5) do end end
    local json = require "lio.json"
    local text = json.encode { list = { 1, 2.5, "x\n" }, sub = { a = true, b = {} } }
    json.decode(text)
    json.decode "[1,"
    assert(not pcall(json.encode, { print }))
"#;
