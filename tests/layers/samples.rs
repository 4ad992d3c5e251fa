//! Tests of the rules: each rule finds its violation in a small tree of sources.

use crate::rules::violations;
use crate::source::Sources;
use std::collections::BTreeMap;

/// Returns the violations in these files, without those that report missing files of the table `UNSAFE`.
fn broken(files: &[(&str, &str)]) -> Vec<String> {
    let files = files.iter().map(|(path, text)| (path.to_string(), text.to_string()));
    let texts: BTreeMap<_, _> = files.collect();
    let found = violations(&Sources::read(&texts));
    found.into_iter().filter(|line| !line.starts_with("named ")).collect()
}

#[test]
fn an_import_of_a_layer_above_is_found() {
    let lib = ("src/lib.rs", "mod event; mod memory; mod modules;");
    let module = ("src/modules/mod.rs", "pub(crate) mod timer;");
    let timer = ("src/modules/timer.rs", "use crate::event::Queue; pub(crate) struct Timer(Queue);");
    let memory = ("src/memory/mod.rs", "");
    let below = ("src/event/mod.rs", "pub(crate) struct Queue; fn f() { crate::memory::f() }");
    assert!(broken(&[lib, module, timer, memory, below]).is_empty());
    let want =
        ["circle src/event/mod.rs", "circle src/modules/timer.rs", "upward src/event/mod.rs -> src/modules/timer.rs"]
            .map(String::from);
    for text in [
        "use crate::modules::timer::Timer; pub(crate) struct Queue(Timer);",
        "pub(crate) struct Queue; fn f() { crate::modules::timer::f() }",
        "use crate::modules; pub(crate) struct Queue; fn f() { m!(modules::timer::f()) }",
        "pub(crate) struct Queue; fn f() -> super::modules::timer::Timer {}",
    ] {
        let found = broken(&[lib, module, timer, memory, ("src/event/mod.rs", text)]);
        assert!(want.iter().all(|line| found.contains(line)), "{text}: {found:?}");
    }
}

#[test]
fn an_import_of_a_neighbour_of_the_same_rank_is_found() {
    let files = [
        ("src/lib.rs", "mod file; mod socket;"),
        ("src/file/mod.rs", ""),
        ("src/socket/mod.rs", "fn f() { crate::file::f() }"),
    ];
    assert_eq!(broken(&files), ["upward src/socket/mod.rs -> src/file/mod.rs"]);
}

#[test]
fn a_use_of_lua_below_the_bindings_is_found() {
    let files = [
        ("src/lib.rs", "mod lua; mod stream; mod task;"),
        ("src/lua/mod.rs", ""),
        ("src/stream/mod.rs", "fn f() { crate::lua::f() }"),
        ("src/task/mod.rs", "fn f() { crate::lua::f() }"),
    ];
    assert_eq!(broken(&files), ["lua src/stream/mod.rs"]);
}

#[test]
fn a_cycle_is_found_through_a_reexport() {
    let lib = ("src/lib.rs", "mod task;");
    let head = ("src/task/mod.rs", "mod core; mod run; pub(crate) use core::Task; pub(crate) use run::run;");
    let core = ("src/task/core.rs", "use super::run; pub(crate) struct Task;");
    let run = ("src/task/run.rs", "pub(crate) fn run(_: super::Task) {}");
    assert_eq!(broken(&[lib, head, core, run]), ["circle src/task/core.rs", "circle src/task/run.rs"]);
    let core = ("src/task/core.rs", "pub(crate) struct Task;");
    assert!(broken(&[lib, head, core, run]).is_empty());
}

#[test]
fn test_code_is_left_out() {
    let files = [
        ("src/lib.rs", "mod event; mod modules;"),
        (
            "src/event/mod.rs",
            "#[cfg(test)] mod tests; #[cfg(test)] mod inner { use crate::modules; fn f() { unsafe {} } }
            #[cfg(any(test, feature = \"fuzzing\"))] mod fuzz;",
        ),
        ("src/event/tests.rs", "use crate::modules; thread_local!(static A: u8 = 1);"),
        ("src/event/fuzz.rs", "use crate::modules; thread_local!(static A: u8 = 1);"),
        ("src/modules/mod.rs", ""),
    ];
    assert!(broken(&files).is_empty());
}

#[test]
fn unsafe_outside_its_places_is_found() {
    let lib = ("src/lib.rs", "mod lua; mod ltask; mod event;");
    let lua = ("src/lua/mod.rs", "fn f() { unsafe { g() } }");
    let named = ("src/ltask/crash.rs", "fn f() { unsafe { g() } }");
    let event = ("src/event/mod.rs", "");
    let ltask = ("src/ltask/mod.rs", "mod crash;");
    assert!(broken(&[lib, lua, ltask, named, event]).is_empty());
    for text in [
        "fn f() { unsafe { g() } }",
        "unsafe fn f() {}",
        "macro_rules! m { () => { unsafe {} } }",
        "unsafe impl Send for A {}",
    ] {
        let found = broken(&[lib, lua, ltask, named, ("src/event/mod.rs", text)]);
        assert_eq!(found, ["unsafe src/event/mod.rs"], "{text}");
    }
}

#[test]
fn a_permission_without_need_is_found() {
    let lib = ("src/lib.rs", "#[allow(unsafe_code)] mod event;");
    assert_eq!(broken(&[lib, ("src/event/mod.rs", "")]), ["allow src/event/mod.rs"]);
}

#[test]
fn a_repeated_argument_is_found() {
    let lib = ("src/lib.rs", "mod event; mod lua;");
    let lua = ("src/lua/mod.rs", "// SAFETY: the state is\n// valid.\n\n// SAFETY: it is not null.\n");
    let event = ("src/event/mod.rs", "    // SAFETY: The state is valid");
    assert_eq!(broken(&[lib, lua, event]), ["argument src/event/mod.rs"]);
    let twice = ("src/lua/mod.rs", "// SAFETY: it is not null.\n\n// SAFETY: it is\n// not null\n");
    assert_eq!(broken(&[lib, twice, ("src/event/mod.rs", "")]), ["argument src/lua/mod.rs: it is not null"]);
    assert!(broken(&[lib, lua, ("src/event/mod.rs", "// SAFETY: as for `f`, which is not null.")]).is_empty());
    let points = broken(&[lib, lua, ("src/event/mod.rs", "// SAFETY: as for `f`.")]);
    assert_eq!(points, ["argument src/event/mod.rs"]);
}

#[test]
fn data_of_a_thread_is_found() {
    let lib = ("src/lib.rs", "mod event;");
    for text in [
        "thread_local!(static POOL: Vec<u8> = const { Vec::new() });",
        "std::thread_local!(static POOL: u8 = 1);",
        "static POOL: Shared<Rc<u8>> = Shared::new();",
        "static mut COUNT: u8 = 0;",
    ] {
        assert_eq!(broken(&[lib, ("src/event/mod.rs", text)]), ["thread src/event/mod.rs"], "{text}");
    }
    let plain = "static A: Mutex<Vec<u8>> = Mutex::new(Vec::new()); fn f() -> &'static RefCell<u8> { g() }";
    assert!(broken(&[lib, ("src/event/mod.rs", plain)]).is_empty());
}

#[test]
fn a_crate_in_the_wrong_place_is_found() {
    let lib = ("src/lib.rs", "mod codec; mod event; mod lua; use mlua::Lua;");
    let lua = ("src/lua/mod.rs", "use mlua::ffi;");
    let codec = ("src/codec/mod.rs", "use std::{fmt, time::Duration};");
    assert!(broken(&[lib, lua, codec, ("src/event/mod.rs", "")]).is_empty());
    let found = broken(&[lib, lua, codec, ("src/event/mod.rs", "fn f(_: *mut ::mlua::lua_State) {}")]);
    assert_eq!(found, ["mlua src/event/mod.rs"]);
    let codec = ("src/codec/mod.rs", "use std::{fmt, fs::File};");
    assert_eq!(broken(&[lib, lua, codec, ("src/event/mod.rs", "")]), ["codec src/codec/mod.rs names std::fs"]);
}

#[test]
fn too_much_code_is_found() {
    let found = |line: &str| {
        let names: Vec<_> = (0..85).map(|number| format!("src/task/f{number}.rs")).collect();
        let modules: String = (0..85).map(|number| format!("mod f{number};\n")).collect();
        let text = line.repeat(500);
        let mut files = vec![("src/lib.rs", "mod task;"), ("src/task/mod.rs", &modules)];
        files.extend(names.iter().map(|name| (name.as_str(), text.as_str())));
        broken(&files).contains(&"lines src".to_owned())
    };
    assert!(found("fn f() {}\n"));
    assert!(!found("\n"));
    assert!(!found("    // fn f() {}\n"));
}

#[test]
fn a_long_file_is_found() {
    let text = "fn f() {}\n".repeat(501);
    assert_eq!(broken(&[("src/lib.rs", &text)]), ["long src/lib.rs"]);
    let text = "fn f() {}\n".repeat(400) + "#[cfg(test)]\nmod tests {\n" + &"\n".repeat(200) + "}\n";
    assert!(broken(&[("src/lib.rs", &text)]).is_empty());
}
