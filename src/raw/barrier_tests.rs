//! That a panic becomes a Lua error wherever Lua calls this crate, and that nothing goes round the barrier.

use crate::raw::Function;
use mlua::ffi::{self, lua_KContext, lua_State};
use std::ffi::CStr;
use std::fs;
use std::os::raw::c_int;
use std::path::{Path, PathBuf};

unsafe extern "C-unwind" fn break_plainly(_: *mut lua_State) -> c_int {
    panic!("a plain text")
}

unsafe extern "C-unwind" fn break_with_values(state: *mut lua_State) -> c_int {
    // SAFETY: the stack is checked.
    unsafe {
        while ffi::lua_checkstack(state, 100) != 0 && ffi::lua_gettop(state) < 100_000 {
            for _ in 0..100 {
                ffi::lua_pushnil(state);
            }
        }
        panic!("{} values", ffi::lua_gettop(state))
    }
}

unsafe extern "C-unwind" fn break_in_lua(state: *mut lua_State) -> c_int {
    // SAFETY: argument 1 is called; an error of it passes.
    unsafe {
        ffi::lua_settop(state, 1);
        ffi::lua_call(state, 0, 0);
    }
    panic!("after a call")
}

struct Payload;

impl Drop for Payload {
    fn drop(&mut self) {
        panic!("a payload that breaks as well")
    }
}

unsafe extern "C-unwind" fn break_oddly(_: *mut lua_State) -> c_int {
    std::panic::panic_any(Payload)
}

unsafe extern "C-unwind" fn wait(state: *mut lua_State) -> c_int {
    // SAFETY: the yield is the last act.
    unsafe { ffi::lua_yieldk(state, 0, 0, Some(continuation!(break_later))) }
}

unsafe extern "C-unwind" fn break_later(_: *mut lua_State, _: c_int, _: lua_KContext) -> c_int {
    panic!("after a wait")
}

const BREAK: &[(&CStr, Function)] = functions![
    (c"plainly", break_plainly),
    (c"with_values", break_with_values),
    (c"in_lua", break_in_lua),
    (c"oddly", break_oddly),
    (c"wait", wait),
];

/// Runs a chunk with the table of functions as its argument; its result or its error, as a text.
fn run(code: &str) -> String {
    // SAFETY: a state of its own; what may raise is called protected.
    unsafe {
        let state = ffi::luaL_newstate();
        ffi::luaL_openlibs(state);
        let data = code.as_ptr().cast();
        let name = c"=code".as_ptr();
        ffi::luaL_loadbufferx(state, data, code.len(), name, c"t".as_ptr());
        ffi::lua_createtable(state, 0, 0);
        for (name, function) in BREAK {
            function.push(state, 0);
            ffi::lua_setfield(state, -2, name.as_ptr());
        }
        ffi::lua_pcall(state, 1, 1, 0);
        let text = CStr::from_ptr(ffi::luaL_tolstring(state, -1, std::ptr::null_mut()));
        let text = text.to_string_lossy().into_owned();
        ffi::lua_close(state);
        text
    }
}

#[test]
fn a_panic_in_a_function_is_an_error_at_the_callers_line() {
    let want = "code:1: internal error: a plain text";
    assert_eq!(run("local b = ... b.plainly() return 1"), want);
    assert_eq!(
        run("local b = ... return select(2, pcall(b.oddly))"),
        "internal error: unknown cause"
    );
}

#[test]
fn the_vm_goes_on_after_panics() {
    let code = "local b = ...
        local texts = {}
        for _ = 1, 500 do texts[select(2, pcall(b.plainly))] = true end
        local count = 0
        for _ in pairs(texts) do count = count + 1 end
        collectgarbage()
        return count .. ' ' .. next(texts)";
    assert_eq!(run(code), "1 internal error: a plain text");
}

#[test]
fn a_panic_with_a_full_stack_is_an_error() {
    let code = "local b = ... return select(2, pcall(b.with_values))";
    assert_eq!(run(code), "internal error: 100000 values");
}

#[test]
fn a_panic_after_a_call_of_lua_and_in_one_is_an_error() {
    let code = "local b = ...
        local _, outer = pcall(b.in_lua, function() end)
        local _, inner = pcall(b.in_lua, function() b.plainly() end)
        local _, both = pcall(b.in_lua, function() pcall(b.plainly) end)
        return table.concat({ outer, inner, both }, '; ')";
    assert_eq!(
        run(code),
        "internal error: after a call; code:3: internal error: a plain text; internal error: after a call"
    );
}

#[test]
fn a_panic_in_a_continuation_is_an_error() {
    let code = "local b = ...
        local co = coroutine.create(function() b.wait() end)
        local first = coroutine.resume(co)
        local second, text = coroutine.resume(co)
        return tostring(first) .. ' ' .. tostring(second) .. ' ' .. text .. ' ' .. coroutine.status(co)";
    assert_eq!(
        run(code),
        "true false code:2: internal error: after a wait dead"
    );
}

#[test]
fn a_panic_in_a_finalizer_does_not_leave_the_collector() {
    let code = "local b = ...
        warn '@on'
        setmetatable({}, { __gc = b.plainly })
        collectgarbage()
        return 'collected'";
    assert_eq!(run(code), "collected");
}

/// Every source file of the library and of the executable.
fn sources() -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a text");
                found.push((path, text));
            }
        }
    }
    let mut found = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    walk(&root.join("src"), &mut found);
    // The core has a barrier of its own.
    found.retain(|(path, _)| {
        !path.starts_with(root.join("src/raw/barrier.rs"))
            && !path.ends_with("barrier_tests.rs")
            && !path.starts_with(root.join("src/lua"))
    });
    let build = root.join("build.rs");
    let text = fs::read_to_string(&build).expect("a text");
    found.push((build, text));
    found
}

/// What follows `start` up to the parenthesis that closes it.
fn arguments(text: &str) -> &str {
    let mut depth = 1;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[..at];
        }
    }
    text
}

/// Functions with the C calling convention that are not called by Lua as functions, continuations or hooks. None lets
/// a panic pass: those of `extern "C"` would end the process, and the others say why they cannot panic.
const OTHERS: &[&str] = &[
    // Called by C code of others: they catch panics by themselves.
    "send_external",
    "send_log",
    "log_from_c",
    // Allocators.
    "allocate",
    // Handlers of signals.
    "on_signal",
    // Before Lua aborts the process; warnings; a writer: they write, and heed no failure.
    "panicked",
    "warn_off",
    "warn_on",
    "warn_more",
    "append",
];

/// Calls that give Lua a function, and what must be around that.
const GIVE: &[&str] = &["lua_yieldk(", "lua_callk(", "lua_pcallk(", "lua_sethook("];

#[test]
fn every_function_that_lua_gets_has_the_barrier() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let shown = path.display();
        for call in [
            "lua_pushcclosure",
            "lua_pushcfunction",
            "lua_register",
            "luaL_setfuncs",
        ] {
            if text.contains(&format!("{call}(")) {
                wrong.push(format!("{shown} calls {call}"));
            }
        }
        for (call, (at, _)) in GIVE
            .iter()
            .flat_map(|call| text.match_indices(call).map(move |found| (call, found)))
        {
            let given = arguments(&text[at + call.len()..]);
            let barred = ["continuation!(", "hook!(", "then)"];
            let bare = given
                .split("Some(")
                .skip(1)
                .any(|given| !barred.iter().any(|barred| given.starts_with(barred)));
            if bare {
                wrong.push(format!("{shown}: {call}{given}) has no barrier"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_function_with_the_c_convention_is_one_of_lua_or_named() {
    let sources = sources();
    let all: String = sources.iter().map(|(_, text)| text.as_str()).collect();
    let mut wrong = Vec::new();
    for (path, text) in &sources {
        for line in text.match_indices("extern \"C") {
            let Some((_, rest)) = text[line.0..].split_once("\" fn ") else {
                continue;
            };
            let Some((name, rest)) = rest.split_once('(') else {
                continue;
            };
            if text[line.0..].find("\" fn ") > text[line.0..].find('\n') || name.contains('\n') {
                continue;
            }
            let name = name.split('<').next().unwrap_or(name);
            let given: String = arguments(rest).split_whitespace().collect();
            // A function of Lua's, which reaches it by `function!` alone.
            let plain = given.trim_end_matches(',').ends_with("*mutlua_State")
                && !given.trim_end_matches(',').contains(',');
            let barred = all.contains(&format!("continuation!({name})"))
                || all.contains(&format!("hook!({name})"));
            if !plain && !barred && !OTHERS.contains(&name) {
                wrong.push(format!("{}: {name} has no barrier", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
