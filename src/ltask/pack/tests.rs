//! What the Lua suite cannot bring about: Lua without memory at every point, and wrong bytes of every
//! kind. Under valgrind these tests also prove that no block is lost.

use super::*;
use crate::ltask::memory::{self, Memory};
use crate::raw::{Function, module};
use proptest::prelude::*;
use std::ffi::CString;
use std::ptr;

/// A VM with the functions of packing as globals, on a memory that can be limited.
struct Vm {
    state: *mut lua_State,
    memory: Box<Memory>,
}

impl Vm {
    fn new() -> Self {
        let mut memory = Memory::new(ptr::null_mut());
        let pointer: *mut Memory = &mut *memory;
        // SAFETY: the memory outlives the VM.
        unsafe {
            #[cfg(feature = "lua55")]
            let state = ffi::lua_newstate(memory::allocate, pointer.cast(), 1);
            #[cfg(not(feature = "lua55"))]
            let state = ffi::lua_newstate(memory::allocate, pointer.cast());
            assert!(!state.is_null());
            ffi::luaL_openlibs(state);
            module::push(state, FUNCTIONS);
            ffi::lua_setglobal(state, c"ltask".as_ptr());
            Vm { state, memory }
        }
    }

    /// Loads `code` and leaves the function that it returns on the stack.
    fn load(&self, code: &str) {
        let code = CString::new(code).expect("no NUL in the code");
        // SAFETY: the VM is open.
        unsafe {
            let loaded = ffi::luaL_loadstring(self.state, code.as_ptr());
            assert_eq!(loaded, ffi::LUA_OK, "{}", self.error());
            let ran = ffi::lua_pcall(self.state, 0, 1, 0);
            assert_eq!(ran, ffi::LUA_OK, "{}", self.error());
        }
    }

    fn error(&self) -> String {
        // SAFETY: an error message is on top of the stack.
        unsafe {
            let mut length = 0;
            let text = ffi::lua_tolstring(self.state, -1, &mut length);
            assert!(!text.is_null(), "the error is no string");
            let bytes = std::slice::from_raw_parts(text.cast::<u8>(), length);
            String::from_utf8_lossy(bytes).into_owned()
        }
    }

    /// `unpack` of `bytes`, each in a block of exactly its size so that valgrind sees a read behind it.
    fn unpack(&self, bytes: &[u8]) -> Result<(), String> {
        // SAFETY: the block is owned by the call.
        unsafe {
            let unpack: Function = functions::FUNCTIONS[2].1;
            let block = libc::malloc(bytes.len());
            ptr::copy_nonoverlapping(bytes.as_ptr(), block.cast(), bytes.len());
            unpack.push(self.state, 0);
            ffi::lua_pushlightuserdata(self.state, block);
            ffi::lua_pushinteger(self.state, bytes.len() as i64);
            let status = ffi::lua_pcall(self.state, 2, 0, 0);
            let result = match status {
                ffi::LUA_OK => Ok(()),
                _ => Err(self.error()),
            };
            ffi::lua_settop(self.state, 0);
            result
        }
    }

    /// The packed bytes of what the Lua expression gives.
    fn pack(&self, expression: &str) -> Vec<u8> {
        self.load(&format!("return table.pack({expression})"));
        // SAFETY: the block is copied, then freed.
        unsafe {
            let count = ffi::lua_rawlen(self.state, 1) as i64;
            for index in 1..=count {
                ffi::lua_rawgeti(self.state, 1, index);
            }
            let (block, size) = pack(self.state, 2);
            let bytes = std::slice::from_raw_parts(block.cast::<u8>(), size).to_vec();
            libc::free(block);
            ffi::lua_settop(self.state, 0);
            bytes
        }
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        // SAFETY: closed once, before its memory is dropped.
        unsafe { ffi::lua_close(self.state) }
    }
}

/// Packs what is short enough to be parked while it is unpacked.
const SHORT_WORK: &str = r#"
    local value = { 1, 2.5, "text", { x = 1, y = { z = "far" } } }
    value.again = value[4]
    return function()
      local first, second = ltask.unpack_remove(ltask.pack(value, ("y"):rep(300)))
      assert(first[4].y.z == "far" and first.again == first[4] and #second == 300)
    end
"#;

const WORK: &str = r#"
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
    vm.load(code);
    let (mut failed, mut passed) = (0, 0);
    for spare in (0..enough).step_by(step) {
        // SAFETY: the function lies at 1.
        unsafe {
            ffi::lua_gc(vm.state, ffi::LUA_GCCOLLECT);
            vm.memory.set_limit(vm.memory.used() + spare);
            ffi::lua_pushvalue(vm.state, 1);
            let status = ffi::lua_pcall(vm.state, 0, 0, 0);
            vm.memory.set_limit(0);
            if status == ffi::LUA_OK {
                passed += 1;
            } else {
                // Lua says of a stack that cannot grow only that it cannot.
                let message = vm.error();
                let known = [
                    "not enough memory",
                    "stack overflow",
                    "too many values for the stack",
                ];
                assert!(known.iter().any(|text| message.contains(text)), "{message}");
                failed += 1;
            }
            ffi::lua_settop(vm.state, 1);
        }
    }
    assert!(failed > 100 && passed > 100, "{failed} {passed}");
}

#[test]
fn a_round_trip_survives_lua_running_out_of_memory_anywhere() {
    starve(WORK, 70_000, 48);
    starve(SHORT_WORK, 3000, 1);
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
fn every_end_of_a_message_but_the_last_is_noticed_or_harmless() {
    let vm = Vm::new();
    for sample in SAMPLES {
        let bytes = vm.pack(sample);
        assert_eq!(vm.unpack(&bytes), Ok(()));
        for length in 0..bytes.len() {
            let _ = vm.unpack(&bytes[..length]);
        }
    }
}

#[test]
fn a_table_cannot_ask_for_more_than_its_bytes_could_fill() {
    let vm = Vm::new();
    vm.memory.set_limit(vm.memory.used() + 20_000);
    let mut counted = vec![format::TABLE, format::WIDTH_64];
    counted.extend((1u64 << 40).to_ne_bytes());
    for bytes in [
        counted.as_slice(),
        &[
            format::TABLE,
            format::WIDTH_32,
            0xff,
            0xff,
            0xff,
            0x7f,
            0x10,
        ],
        &[format::TABLE, format::SHAPE_KEYS, format::NIL],
        &[format::TABLE, 33, 0x10, 0x10, format::NIL],
        &[format::STRING_32, 0xff, 0xff, 0xff, 0xff, b'x'],
    ] {
        if let Err(message) = vm.unpack(bytes) {
            assert!(message.contains("cannot unpack"), "{message}");
        }
    }
}

#[test]
fn wrong_bytes_are_named() {
    let vm = Vm::new();
    let message = |bytes: &[u8]| vm.unpack(bytes).expect_err("the bytes are wrong");
    let mut nan = vec![format::TABLE, 1, format::FLOAT];
    nan.extend(f64::NAN.to_ne_bytes());
    nan.extend([0x10, format::NIL]);
    let deep = [format::TABLE, format::WIDTH_8, 1].repeat(format::MAX_DEPTH as usize + 1);
    let zero = [[format::FUNCTION].as_slice(), &[0; 8]].concat();
    for (bytes, text) in [
        (nan.as_slice(), "NaN for a key"),
        (&[format::BODY, 0], "content without a table"),
        (&[format::LATER], "cut off"),
        (&[format::REFERENCE, 0x10], "reference to nothing"),
        (
            &[format::TABLE, 0, format::REFERENCE, 0x10],
            "reference to nothing",
        ),
        (
            &[
                format::TABLE_SHARED,
                0,
                format::REFERENCE,
                format::INTEGER_8,
                0xff,
            ],
            "reference",
        ),
        (&[format::REFERENCE, 0x80], "integer expected"),
        (&deep, "nested too deeply"),
        (&zero, "no function"),
        (&[format::NIL; 1_100_000], "too many values for the stack"),
    ] {
        let got = message(bytes);
        assert!(
            got.contains("cannot unpack: ") && got.contains(text),
            "{got}"
        );
    }
}

/// Bytes of this process in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("a number of pages") * 4096
}

#[test]
fn blocks_are_freed_whether_they_are_good_or_corrupt_small_or_large() {
    let vm = Vm::new();
    for size in [900, 3000] {
        let good = vm.pack(&format!("('x'):rep({size})"));
        let mut corrupt = good.clone();
        corrupt.push(format::LATER);
        let before = resident();
        // Each kind alone would be twice the bound.
        for _ in 0..300_000_000 / size {
            assert_eq!(vm.unpack(&good), Ok(()));
            assert!(vm.unpack(&corrupt).is_err());
        }
        let grown = resident().saturating_sub(before);
        assert!(grown < 150_000_000, "{grown} bytes more");
    }
}

#[test]
fn values_made_without_lua_arrive() {
    let vm = Vm::new();
    let (block, size) = pack_values(&[
        Value::String(b"external"),
        Value::Pointer(ptr::dangling_mut::<u8>().cast()),
        Value::Integer(-5),
        Value::Nil,
        Value::Boolean(true),
        Value::Float(0.5),
        Value::Boolean(false),
    ]);
    vm.load(
        "return function(name, pointer, a, b, c, d, e)
          assert(name == 'external' and type(pointer) == 'userdata')
          assert(a == -5 and b == nil and c == true and d == 0.5 and e == false)
        end",
    );
    // SAFETY: the block is this test's.
    unsafe {
        assert_eq!(unpack_owned(vm.state, block, size), 7);
        assert_eq!(
            ffi::lua_pcall(vm.state, 7, 0, 0),
            ffi::LUA_OK,
            "{}",
            vm.error()
        );
    }
    assert_eq!(pack_values(&[]), (ptr::null_mut(), 0));
}

#[test]
fn the_classes_of_key_counts_round_up() {
    let classes: Vec<u8> = [0, 1, 2, 3, 4, 5, 8, 9, 1 << 40, u64::MAX]
        .map(keys)
        .to_vec();
    assert_eq!(classes, [0, 1, 2, 3, 3, 4, 4, 5, 41, 65]);

    fn keys(count: u64) -> u8 {
        format::keys_class(count)
    }
}

proptest! {
    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(byte(), 0..200)) {
        let vm = Vm::new();
        check(vm.unpack(&bytes))?;
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

/// Any byte, tags more often.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![any::<u8>(), format::NIL..=format::REFERENCE + 1]
}

fn check(result: Result<(), String>) -> Result<(), TestCaseError> {
    if let Err(message) = result {
        prop_assert!(message.contains("cannot unpack: "), "{}", message);
    }
    Ok(())
}
