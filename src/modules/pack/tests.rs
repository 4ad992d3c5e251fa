//! Tests that the Lua suite cannot contain: Lua runs out of memory at every point, and blocks contain malformed bytes
//! of every kind, in allocations of exactly their size, so that a memory checker detects a read beyond a block.

use super::functions::function_at;
use super::*;
use crate::codec::pack::Value as Plain;
use crate::lua::{Function, Module, testing};
use mlua::{LightUserData, MultiValue, Table};
use proptest::prelude::*;
use std::ffi::c_void;

const OPEN: Function = Function::new(|_: &mut Call<'_>| Ok(Module(FUNCTIONS)));

/// A VM, and the functions of packing.
struct Vm {
    lua: mlua::Lua,
    ltask: Table,
}

impl Vm {
    fn new() -> Vm {
        let (lua, ltask) = testing::vm(OPEN);
        Vm { lua, ltask }
    }

    /// Returns the result of the code, which gets the functions as `...`.
    fn load<R: mlua::FromLuaMulti>(&self, code: &str) -> R {
        let chunk = self.lua.load(code);
        chunk.call(self.ltask.clone()).expect("the chunk runs")
    }

    /// Calls `unpack_remove` with the bytes.
    fn unpack(&self, bytes: &[u8]) -> Result<MultiValue, String> {
        let (address, size) = Payload::copy(bytes).expect("memory").into_raw();
        let pointer = LightUserData(std::ptr::with_exposed_provenance_mut::<c_void>(address));
        let unpack: mlua::Function = self.ltask.get("unpack_remove").expect("the function exists");
        let result = unpack.call((pointer, size));
        result.map_err(|error| error.to_string())
    }

    /// Returns the packed bytes of the result of the Lua expression.
    fn pack(&self, expression: &str) -> Vec<u8> {
        let code = format!("return (...).pack({expression})");
        let (pointer, size): (LightUserData, usize) = self.load(&code);
        let payload = Payload::from_raw(pointer.0.expose_provenance(), size);
        payload.as_slice().to_vec()
    }
}

/// Code that packs values that are short enough to be copied when they are unpacked.
const SHORT_WORK: &str = r#"
    local ltask = ...
    local value = { 1, 2.5, "text", { x = 1, y = { z = "far" } } }
    value.again = value[4]
    return function()
      local first, second = ltask.unpack_remove(ltask.pack(value, ("y"):rep(30)))
      assert(first[4].y.z == "far" and first.again == first[4] and #second == 30)
    end
"#;

const WORK: &str = r#"
    local ltask = ...
    local chain = {}
    for i = 1, 120 do chain = { chain, i, name = "link" } end
    local pairs_of = setmetatable({}, { __pairs = function()
      return next, { (ltask.unpack_remove(ltask.pack("inner", { 1 }))) }
    end })
    local value = { 1, 2.5, "text", { x = 1, y = { chain } }, pairs_of, long = ("x"):rep(3000) }
    value.again = value[4]
    return function()
      local got = ltask.unpack_remove(ltask.pack(value, chain))
      assert(got[5][1] == "inner" and got.again == got[4] and #got.long == 3000)
      assert(got.again.y[1][1][2] == 119)
    end
"#;

/// Gives the VM a little more memory each time, so that every allocation of a round trip fails once.
fn starve(code: &str, enough: usize, step: usize) {
    let vm = Vm::new();
    let work: mlua::Function = vm.load(code);
    let (mut failed, mut passed) = (0, 0);
    for spare in (0..enough).step_by(step) {
        vm.lua.gc_collect().expect("no finalizer fails");
        let limit = vm.lua.used_memory() + spare;
        vm.lua.set_memory_limit(limit).expect("mlua's allocator");
        let result = work.call::<()>(());
        vm.lua.set_memory_limit(0).expect("mlua's allocator");
        match result {
            Ok(()) => passed += 1,
            Err(error) => {
                // Lua's message for a stack that cannot grow does not mention memory.
                let message = error.to_string();
                let known =
                    ["not enough memory", "no memory for a message", "stack overflow", "too many values for the stack"];
                assert!(known.iter().any(|text| message.contains(text)), "{message}");
                failed += 1;
            }
        }
    }
    assert!(failed > 100 && passed > 100, "{failed} {passed}");
}

#[test]
fn a_round_trip_survives_lua_running_out_of_memory_anywhere() {
    starve(WORK, 100_000, 48);
    starve(SHORT_WORK, 4000, 4);
}

const SAMPLES: [&str; 6] = [
    r#"nil, true, 1, -300, 70000, 1 << 40, 2.5, "short", ("long"):rep(30)"#,
    r#"{ 1, 2, 3, "abc", { x = 1, y = 2.5, z = "hello" } }"#,
    r#"(function() local t = { { 1 }, nil, 3 } t[2] = { t, t[1] } t.x = t return t, t[1] end)()"#,
    r#"(function() local t = { "in" } for i = 1, 100 do t = { t, i } end return t end)()"#,
    r#"(function() local t = {} for i = 1, 300 do t[i] = i t["k" .. i] = i end return t end)()"#,
    r#"(function() local s = {} local t = s for i = 1, 60 do t = { k = t, s = s } end return t, s end)()"#,
];

#[test]
fn a_message_that_is_truncated_anywhere_is_an_error_or_harmless() {
    let vm = Vm::new();
    for sample in SAMPLES {
        let bytes = vm.pack(sample);
        assert!(vm.unpack(&bytes).is_ok());
        for length in 0..bytes.len() {
            let _ = vm.unpack(&bytes[..length]);
        }
    }
}

#[test]
fn a_table_cannot_reserve_more_than_its_bytes_could_fill() {
    let vm = Vm::new();
    let limit = vm.lua.used_memory() + 20_000;
    vm.lua.set_memory_limit(limit).expect("mlua's allocator");
    let mut counted = vec![0xcd, 0xc0];
    counted.extend((1u64 << 40).to_ne_bytes());
    for bytes in [
        counted.as_slice(),
        &[0xcd, 0x80, 0xff, 0xff, 0xff, 0x7f, 0x10],
        &[0xcd, 0x3f, 0xc0],
        &[0xcd, 33, 0x10, 0x10, 0xc0],
        &[0xc9, 0xff, 0xff, 0xff, 0xff, b'x'],
    ] {
        if let Err(message) = vm.unpack(bytes) {
            assert!(message.contains("cannot unpack"), "{message}");
        }
    }
}

#[test]
fn the_error_names_the_malformed_part() {
    let vm = Vm::new();
    let mut nan = vec![0xcd, 1, 0xc7];
    nan.extend(f64::NAN.to_ne_bytes());
    nan.extend([0x10, 0xc0]);
    let deep = [0xcd, 0x40, 1].repeat(49);
    let none = [[0xcc].as_slice(), &[0; 8]].concat();
    let unknown = [[0xcc].as_slice(), &[0xff; 8]].concat();
    for (bytes, text) in [
        (nan.as_slice(), "a key is NaN"),
        (&[0xd1, 0], "content without a table"),
        (&[0xcf], "truncated"),
        (&[0xd2, 0x10], "reference to an unknown table"),
        (&[0xcd, 0, 0xd2, 0x10], "reference to an unknown table"),
        (&[0xce, 0, 0xd2, 0xc3, 0xff], "reference"),
        (&[0xd2, 0x80], "integer expected"),
        (&[0xd2, 0xc6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], "reference to an unknown table"),
        (&deep, "nested too deeply"),
        (&none, "no function"),
        (&unknown, "no function"),
        (&[0xc0; 1_100_000], "too many values for the stack"),
    ] {
        let got = vm.unpack(bytes).expect_err("the bytes are malformed");
        assert!(got.contains("cannot unpack: ") && got.contains(text), "{got}");
    }
}

/// Even from malformed bytes, only functions that were packed before are unpacked.
#[test]
fn a_function_is_one_that_was_packed() {
    let vm = Vm::new();
    let bytes = vm.pack("print, ...");
    assert_eq!(bytes[0], 0xcc);
    for number in 0..2000u64 {
        let bytes = [[0xcc].as_slice(), &number.to_ne_bytes()].concat();
        if let Ok(values) = vm.unpack(&bytes) {
            let sent = function_at(number).expect("the function was packed");
            let function = values[0].as_function().expect("a function");
            assert_eq!(function.to_pointer().addr(), sent.address());
        }
    }
}

/// Regression: a `__pairs` metamethod changed the enclosing table while it was traversed, and `next` raised an error in
/// code that must not raise.
#[test]
fn a_pairs_metamethod_may_change_the_enclosing_table() {
    let vm = Vm::new();
    let (text, count): (String, i64) = vm.load(
        r#"
        local ltask = ...
        local t = { b = { "kept" } }
        t.a = setmetatable({}, { __pairs = function()
          t.a = nil
          for i = 1, 100 do t[i] = i end
          for i = 1, 100 do t[i] = nil end
          return next, { "given" }
        end })
        local got = ltask.unpack_remove(ltask.pack(t))
        assert(got.b[1] == "kept")
        return got.a[1], #got
        "#,
    );
    assert_eq!((text.as_str(), count), ("given", 0));
}

/// Returns the resident memory of this process, in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux reports it");
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("a number of pages") * 4096
}

#[test]
fn valid_and_corrupt_blocks_of_any_size_are_freed() {
    let vm = Vm::new();
    for size in [100, 3000] {
        let good = vm.pack(&format!("('x'):rep({size})"));
        let mut corrupt = good.clone();
        corrupt.push(0xcf);
        let before = resident();
        // If only one of the two kinds leaked, memory would grow by twice the bound.
        for _ in 0..300_000_000 / size.max(900) {
            assert!(vm.unpack(&good).is_ok());
            assert!(vm.unpack(&corrupt).is_err());
        }
        let grown = resident().saturating_sub(before);
        assert!(grown < 150_000_000, "the resident memory grew by {grown} bytes");
    }
}

#[test]
fn values_packed_without_lua_can_be_unpacked() {
    let vm = Vm::new();
    let payload = Payload::pack(&[
        Plain::String(b"external"),
        Plain::Pointer(1),
        Plain::Integer(-5),
        Plain::Nil,
        Plain::Boolean(true),
        Plain::Float(0.5),
        Plain::Boolean(false),
    ]);
    let values = vm.unpack(payload.as_slice()).expect("the packed values are valid");
    let check: mlua::Function = vm.load(
        "return function(name, pointer, a, b, c, d, e)
          assert(name == 'external' and type(pointer) == 'userdata')
          assert(a == -5 and b == nil and c == true and d == 0.5 and e == false)
        end",
    );
    check.call::<()>(values).expect("the values are unchanged");
    assert!(Payload::pack(&[]).as_slice().is_empty());
}

proptest! {
    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(byte(), 0..200)) {
        check(Vm::new().unpack(&bytes))?;
    }

    #[test]
    fn changed_bytes_do_no_harm(
        sample in 0..SAMPLES.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), byte(), 0..3u8), 1..6),
    ) {
        let vm = Vm::new();
        let mut bytes = vm.pack(SAMPLES[sample]);
        for (place, byte, kind) in changes {
            let at = place.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => bytes.truncate(at.max(1)),
            }
        }
        check(vm.unpack(&bytes))?;
    }
}

/// Generates a byte. Tags are more likely than other bytes.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![any::<u8>(), 0xc0..=0xd3u8]
}

fn check(result: Result<MultiValue, String>) -> Result<(), TestCaseError> {
    if let Err(message) = result {
        prop_assert!(message.contains("cannot unpack: "), "{}", message);
    }
    Ok(())
}
