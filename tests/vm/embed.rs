//! Tests of `lio::install`: lio in the VM of a Rust program that embeds Lua with mlua.

use super::{alone, descriptors_become, settled_descriptors};
use mlua::{HookTriggers, Lua, VmState};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};

#[path = "../../examples/embed.rs"]
mod example;

fn vm() -> Lua {
    let lua = Lua::new();
    lio::install(&lua).expect("lio is installed");
    lua
}

/// Sends a request for `path` to the server at `url`. Returns all bytes of the response.
fn ask(url: &str, path: &str) -> String {
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(address).expect("the server listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// Sends a request for `path` to the server at `url`. Returns the status and the body of the response.
fn get(url: &str, path: &str) -> (String, String) {
    let answer = ask(url, path);
    let (head, body) = answer.split_once("\r\n\r\n").expect("a whole head");
    let status = head.split(' ').nth(1).expect("a status");
    (status.into(), body.into())
}

/// Starts a server in a VM on its own thread. The script calls its argument `is_served` with the server's URL, and ends
/// after a request for `/stop`. Returns the URL and the thread.
fn serve(prepare: impl FnOnce(&Lua) + Send + 'static, routes: &str) -> (String, JoinHandle<()>) {
    let script = format!(
        r#"
        local is_served = ...
        local loop, app = require "lio.loop", require "lio.webserver".new()
        app:get("/", function() return "fine" end)
        app:get("/stop", function() loop.stop(5) return "stopping" end)
        {routes}
        loop.run(function() is_served(assert(app:listen(0)).url) end)"#
    );
    let (tell, told): (_, Receiver<String>) = mpsc::channel();
    let thread = thread::spawn(move || {
        let lua = vm();
        prepare(&lua);
        let is_served = lua.create_function(move |_, url: String| {
            tell.send(url).expect("the test waits");
            Ok(())
        });
        let run = lua.load(script).set_name("=script");
        run.call::<()>(is_served.expect("memory")).expect("the server ends without an error");
    });
    (told.recv().expect("the server listens"), thread)
}

#[test]
fn the_example_serves_http() {
    let _turn = alone();
    let (tell, told) = mpsc::channel();
    // The server ends with the process.
    thread::spawn(move || example::serve(0, move |url| tell.send(url).expect("the test waits")).expect("it serves"));
    let url = told.recv().expect("the server listens");
    assert_eq!(get(&url, "/").1, "Hello from Lua in Rust!\n");
    assert_eq!(get(&url, "/add/1/2"), ("200".into(), r#"{"sum":3}"#.into()));
    assert_eq!(get(&url, "/add/1/x").0, "404");
}

#[test]
fn files_take_precedence_over_built_in_modules_and_missing_ones_are_named() {
    let _turn = alone();
    let count = |lua: &Lua| lua.load("return #package.searchers").eval::<i64>();
    let before = count(&Lua::new()).expect("a number");
    let lua = vm();
    lio::install(&lua).expect("a second install does nothing");
    assert_eq!(count(&lua).expect("a number"), before + 1);
    let code = r#"
        package.preload["lio.json"] = function() return "mine" end
        assert(require "lio.json" == "mine")
        local _, from = require "lio.timer"
        assert(from == ":built-in:")
        _, from = require "lio.net"
        assert(from == "lio/net.lua")
        require "ltask" require "bee.select" require "skynet.queue"
        return select(2, pcall(require, "lio.nothing"))"#;
    let message: String = lua.load(code).eval().expect("all modules are found");
    assert!(message.contains("no built-in module 'lio.nothing'"), "{message}");
    let message: String = lua.load("return select(2, pcall(require, 'other'))").eval().expect("a string");
    assert!(!message.contains("built-in"), "{message}");
}

#[test]
fn a_failure_is_a_lua_error_and_not_a_userdata() {
    let _turn = alone();
    let lua = vm();
    let error = lua.load("require 'lio.timer'.new():add('x', 1)").set_name("=script").exec();
    let message = error.expect_err("no number").to_string();
    assert!(message.contains("bad argument #1 to 'add'"), "{message}");
    let kind: String = lua.load("return type(select(2, pcall(require 'lio.timer'.new().add)))").eval().expect("a type");
    assert_eq!(kind, "string");
}

#[test]
fn a_handler_that_takes_too_much_memory_fails_alone() {
    let _turn = alone();
    let limit = |lua: &Lua| {
        lua.set_memory_limit(lua.used_memory() + (8 << 20)).expect("a limit");
    };
    let routes = r#"
        local json = require "lio.json"
        app:get("/caught", function() return select(2, pcall(string.rep, "x", 1 << 24)) end)
        app:get("/json", function()
          local text = ("x"):rep(1 << 20)
          return select(2, pcall(json.encode, { text, text, text, text, text, text, text, text, text }))
        end)
        app:get("/much", function() return ("x"):rep(1 << 24) end)
        app:use("/inner", function(req, res, next) next() res:header("x-error", tostring(res.error)) end)
        app:get("/inner", function() return ("x"):rep(1 << 24) end)"#;
    let (url, server) = serve(limit, routes);
    for _ in 0..20 {
        assert_eq!(get(&url, "/caught").1, "not enough memory");
        assert_eq!(get(&url, "/json").1, "not enough memory");
        // A single block of 16 MiB exceeds the limit, but there is enough memory for a response.
        assert_eq!(get(&url, "/much"), ("500".into(), "Internal Server Error\n".into()));
        assert_eq!(get(&url, "/inner"), ("500".into(), "Internal Server Error\n".into()));
        assert_eq!(get(&url, "/"), ("200".into(), "fine".into()));
    }
    get(&url, "/stop");
    server.join().expect("the VM is closed");
}

#[test]
fn the_function_of_loop_run_fails_when_memory_is_short() {
    let _turn = alone();
    let lua = Lua::new();
    lio::install(&lua).expect("installed");
    lua.set_memory_limit(lua.used_memory() + (8 << 20)).expect("a limit");
    let run = "return pcall(require 'lio.loop'.run, function() return ('x'):rep(1 << 24) end)";
    let (ok, message): (bool, String) = lua.load(run).eval().expect("two values");
    assert_eq!((ok, message.as_str()), (false, "not enough memory"));
}

#[test]
fn a_hook_ends_a_handler_that_does_not_end() {
    let _turn = alone();
    let spins = Arc::new(AtomicBool::new(false));
    let seen = spins.clone();
    let hook = move |lua: &Lua| {
        let spin = spins.clone();
        let begin = lua.create_function(move |_, ()| {
            spin.store(true, Ordering::Relaxed);
            Ok(())
        });
        lua.globals().set("begin", begin.expect("memory")).expect("a global");
        let triggers = HookTriggers::new().every_nth_instruction(1000);
        lua.set_global_hook(triggers, move |_, _| match spins.swap(false, Ordering::Relaxed) {
            true => Err(mlua::Error::runtime("it takes too long")),
            false => Ok(VmState::Continue),
        })
        .expect("a hook");
    };
    let (url, server) = serve(hook, "app:get('/spin', function() begin() while true do end end)");
    for _ in 0..20 {
        assert_eq!(get(&url, "/spin").0, "500");
        assert_eq!(get(&url, "/"), ("200".into(), "fine".into()));
    }
    assert!(!seen.load(Ordering::Relaxed));
    get(&url, "/stop");
    server.join().expect("the VM is closed");
}

#[test]
fn two_vms_serve_side_by_side() {
    let _turn = alone();
    let (one, first) = serve(|_| {}, "local n = 0 app:get('/n', function() n = n + 1 return tostring(n) end)");
    let (two, second) = serve(|_| {}, "local n = 100 app:get('/n', function() n = n + 1 return tostring(n) end)");
    for round in 1..=50 {
        assert_eq!(get(&one, "/n").1, round.to_string());
        assert_eq!(get(&two, "/n").1, (100 + round).to_string());
    }
    get(&one, "/stop");
    first.join().expect("the first VM is closed");
    assert_eq!(get(&two, "/n").1, "151");
    get(&two, "/stop");
    second.join().expect("the second VM is closed");
}

#[test]
fn two_vms_on_one_thread_have_nothing_in_common() {
    let _turn = alone();
    let (one, two) = (vm(), vm());
    let code = "local t = require 'lio.timer'.new() t:add(100, 1) sel = require 'lio'.create() return t:count()";
    for lua in [&one, &two, &one] {
        assert_eq!(lua.load(code).eval::<i64>().expect("a count"), 1);
    }
    drop(one);
    assert_eq!(two.load(code).eval::<i64>().expect("a count"), 1);
}

#[test]
fn a_vm_that_is_dropped_while_its_server_runs_releases_everything() {
    let _turn = alone();
    let abandon = || {
        let lua = vm();
        // Three connections: one with a request in progress, one that is idle, and one that is not accepted yet.
        let code = r#"
            local loop, net = require "lio.loop", require "lio.net"
            local app = require "lio.webserver".new()
            app.on_error = function() end
            app:get("/", function() loop.sleep(100) end)
            loop.run(function()
              local server = assert(app:listen(0))
              url = server.url
              local host, port = url:match "//(.-):(%d+)"
              for i = 1, 3 do
                local client = assert(net.connect(host, tonumber(port)))
                if i == 1 then client:send "GET / HTTP/1.1\r\nHost: a\r\n\r\n" end
                if i < 3 then loop.sleep(0.01) end
              end
              leave()
            end)"#;
        let leave = lua.create_function(|_, ()| Err::<(), _>(mlua::Error::runtime("leave")));
        lua.globals().set("leave", leave.expect("memory")).expect("a global");
        let error = lua.load(code).exec().expect_err("the script raises an error");
        assert!(error.to_string().contains("leave"), "{error}");
        lua.globals().get::<String>("url").expect("the address")
    };
    abandon();
    let before = settled_descriptors();
    for _ in 0..20 {
        let url = abandon();
        let address = url.trim_start_matches("http://").trim_end_matches('/');
        assert!(TcpStream::connect(address).is_err(), "the listener was closed");
    }
    assert!(descriptors_become(before), "no descriptor is left open");
}
