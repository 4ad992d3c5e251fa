//! Tests of the allocator: against a model, inside a VM, and when the system has no memory.

use super::usage::KINDS;
use super::*;
use crate::lua;
use crate::lua::interrupt::Interruption;
use mlua::ffi;
use proptest::prelude::*;
use std::cell::Cell;
use std::os::raw::c_int;
use std::ptr;

thread_local! {
    static EXHAUSTED: Cell<bool> = const { Cell::new(false) };
}

/// Whether every allocation from the system fails; a test switches this on and off.
pub(super) fn system_is_exhausted() -> bool {
    EXHAUSTED.get()
}

/// A VM's memory and its expected contents: each block with its size and the byte that fills it.
struct Model {
    memory: Memory,
    blocks: Vec<(*mut u8, usize, u8)>,
    stamp: u8,
}

impl Model {
    fn new() -> Self {
        Model { memory: Memory::default(), blocks: Vec::new(), stamp: 0 }
    }

    fn call(&mut self, block: *mut u8, old: usize, new: usize) -> *mut u8 {
        // SAFETY: the model passes the true size of each block.
        unsafe { self.memory.reallocate(block, old, new) }
    }

    fn fill(&mut self, block: *mut u8, from: usize, size: usize, stamp: u8) {
        // SAFETY: the model allocated the block with this size.
        unsafe { ptr::write_bytes(block.add(from), stamp, size - from) }
    }

    fn create(&mut self, size: usize) -> bool {
        let block = self.call(ptr::null_mut(), 0, size);
        if block.is_null() {
            return false;
        }
        let align = if size.is_multiple_of(16) { 16 } else { 8 };
        assert!((block as usize).is_multiple_of(align), "a block of {size} bytes is misaligned");
        self.stamp = self.stamp.wrapping_add(1);
        self.fill(block, 0, size, self.stamp);
        self.blocks.push((block, size, self.stamp));
        true
    }

    fn resize(&mut self, index: usize, size: usize) -> bool {
        let (block, old, stamp) = self.blocks[index];
        let moved = self.call(block, old, size);
        if moved.is_null() {
            assert!(size > old, "shrinking {old} to {size} failed");
            return false;
        }
        assert!((moved as usize).is_multiple_of(8));
        self.fill(moved, old.min(size), size, stamp);
        self.blocks[index] = (moved, size, stamp);
        true
    }

    fn free(&mut self, index: usize) {
        self.check(index);
        let (block, size, _) = self.blocks.swap_remove(index);
        assert!(self.call(block, size, 0).is_null());
    }

    /// Checks that the block contains its own bytes. Otherwise another block overlaps it, or it was not copied
    /// completely.
    fn check(&self, index: usize) {
        let (block, size, stamp) = self.blocks[index];
        // SAFETY: `blocks` has the true size of each block.
        let bytes = unsafe { std::slice::from_raw_parts(block, size) };
        assert!(bytes == vec![stamp; size], "the contents of a block of {size} bytes have changed");
    }

    fn check_all(&self) {
        for index in 0..self.blocks.len() {
            self.check(index);
        }
        let total: usize = self.blocks.iter().map(|(_, size, _)| size).sum();
        assert_eq!(self.memory.used(), total);
        assert!(self.memory.peak() >= total);
    }

    fn end(mut self) {
        self.check_all();
        while let Some(last) = self.blocks.len().checked_sub(1) {
            self.free(last);
        }
        assert_eq!(self.memory.used(), 0);
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Create(usize),
    Resize(usize, usize),
    Free(usize),
    Exhaust(bool),
    Limit(usize),
    Trim,
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 1..80usize, 3 => 1..560usize, 1 => 480..1100usize, 1 => 1..40_000usize]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => size().prop_map(Operation::Create),
        5 => (any::<usize>(), size()).prop_map(|(index, size)| Operation::Resize(index, size)),
        4 => any::<usize>().prop_map(Operation::Free),
        1 => any::<bool>().prop_map(Operation::Exhaust),
        1 => (0..60_000usize).prop_map(Operation::Limit),
        1 => Just(Operation::Trim),
    ]
}

proptest! {
    #[test]
    fn blocks_do_not_overlap_and_keep_their_contents(operations in prop::collection::vec(operation(), 1..400)) {
        let mut model = Model::new();
        EXHAUSTED.set(false);
        for operation in operations {
            let count = model.blocks.len();
            match operation {
                Operation::Create(size) => _ = model.create(size),
                Operation::Resize(index, size) if count > 0 => _ = model.resize(index % count, size),
                Operation::Free(index) if count > 0 => model.free(index % count),
                Operation::Exhaust(now) => EXHAUSTED.set(now),
                Operation::Limit(limit) => _ = model.memory.set_limit(limit),
                Operation::Trim => {
                    model.memory.trim();
                    model.check_all();
                }
                _ => {}
            }
        }
        model.end();
        EXHAUSTED.set(false);
    }
}

#[test]
fn blocks_of_every_size_shrink_when_the_system_has_no_memory() {
    for old in [2, 17, 512, 513, 520, 528, 529, 4000] {
        for new in [1, 8, 16, 500, 512, 513, 527, 3000] {
            if new > old {
                continue;
            }
            let mut model = Model::new();
            assert!(model.create(old));
            EXHAUSTED.set(true);
            assert!(model.resize(0, new));
            model.check_all();
            EXHAUSTED.set(false);
            model.end();
        }
    }
}

/// Returns `usual`, or a few rounds if Miri interprets the test.
fn rounds(usual: usize) -> usize {
    if cfg!(miri) { 3 } else { usual }
}

#[test]
fn freed_blocks_are_reused() {
    let mut model = Model::new();
    for round in 0..rounds(1000) {
        for size in 1..=512 {
            assert!(model.create(size), "round {round}");
        }
        while let Some(last) = model.blocks.len().checked_sub(1) {
            model.free(last);
        }
    }
    let (held, _) = model.memory.arena.idle();
    assert!(held < 200_000, "{held} bytes are held for 131,328 bytes of blocks");
}

#[test]
fn trimming_frees_the_chunks_without_a_block_in_use() {
    let mut model = Model::new();
    for _ in 0..rounds(100) {
        for size in 1..=512 {
            assert!(model.create(size));
        }
    }
    model.memory.trim();
    model.check_all();
    let (held, idle) = model.memory.arena.idle();
    assert!(held > 131_000 * rounds(100) && idle < 100_000, "{held} bytes are held, {idle} of them are idle");
    while model.blocks.len() > 1 {
        model.free(1);
    }
    model.memory.trim();
    model.check_all();
    let (held, idle) = model.memory.arena.idle();
    assert!(held <= 32 * 1024, "{held} bytes are held for a block of a byte");
    assert!(idle < held);
    for size in 1..=512 {
        assert!(model.create(size));
    }
    model.check_all();
    while let Some(last) = model.blocks.len().checked_sub(1) {
        model.free(last);
    }
    model.memory.trim();
    assert_eq!(model.memory.arena.idle(), (0, 0));
    assert!(model.create(1));
    model.end();
}

#[test]
fn growing_beyond_the_limit_is_refused_and_shrinking_is_not() {
    let mut model = Model::new();
    assert!(model.create(600));
    assert_eq!(model.memory.set_limit(1000), 0);
    assert!(model.create(400));
    assert!(!model.create(1));
    assert!(!model.resize(1, 401));
    assert_eq!(model.memory.used(), 1000);
    assert_eq!(model.memory.set_limit(500), 1000);
    assert!(model.resize(0, 599));
    assert!(!model.resize(0, 600));
    model.free(0);
    assert!(model.create(100));
    assert_eq!(model.memory.peak(), 1000);
    assert_eq!(model.memory.limit(), 500);
    model.end();
}

/// A VM with its own memory and Lua's libraries.
struct Vm(lua::Vm<()>);

impl Vm {
    fn new() -> Self {
        let vm = lua::Vm::for_service((), |_| Interruption::Continue).expect("memory");
        // SAFETY: the VM is open, and nothing in it runs.
        unsafe {
            ffi::luaL_openlibs(vm.state());
            ffi::lua_gc(vm.state(), ffi::LUA_GCRESTART);
        }
        Vm(vm)
    }

    fn memory(&self) -> &Memory {
        self.0.memory()
    }

    fn run(&self, code: &str) -> c_int {
        // SAFETY: the VM is open and idle.
        unsafe {
            let text = std::ffi::CString::new(code).expect("no NUL in the code");
            let loaded = ffi::luaL_loadstring(self.0.state(), text.as_ptr());
            assert_eq!(loaded, ffi::LUA_OK, "{code}");
            ffi::lua_pcall(self.0.state(), 0, 0, 0)
        }
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        assert!(self.0.close().is_ok());
        assert_eq!(self.memory().used(), 0, "memory leaked when the VM closed");
    }
}

#[test]
fn a_vm_counts_its_objects_and_returns_everything() {
    let vm = Vm::new();
    let counts_of = |rounds: u64| {
        let before = vm.memory().counts();
        let code = "for i = 1, ROUNDS do local t, f = {i}, function() return i end end";
        let ran = vm.run(&code.replace("ROUNDS", &rounds.to_string()));
        assert_eq!(ran, ffi::LUA_OK);
        let after = vm.memory().counts();
        std::array::from_fn::<u64, KINDS, _>(|kind| after[kind] - before[kind])
    };
    // The difference does not include the objects that the compiler creates.
    let (few, many) = (counts_of(100), counts_of(200));
    let made = |name: &str| {
        let kind = KIND_NAMES.iter().position(|known| *known == name);
        let kind = kind.expect("a kind by that name");
        many[kind] - few[kind]
    };
    assert_eq!(made("table"), 100);
    assert_eq!(made("function"), 100);
    assert_eq!(made("upvalue"), 100);
    assert_eq!(made("prototype"), 0);
    assert!(made("other") >= 100);
    assert_eq!(made("userdata"), 0);
}

#[test]
fn a_vm_over_its_limit_gets_an_error_and_continues() {
    let vm = Vm::new();
    vm.memory().set_limit(vm.memory().used() + 100_000);
    // The code is loaded in one piece, because when all memory is in use, there is no memory for another chunk.
    let ran = vm.run(
        "local done, message = pcall(string.rep, 'x', 200000)
        assert(not done and message == 'not enough memory')
        local t = {}
        done, message = pcall(function() for i = 1, 1e6 do t[i] = {} end end)
        assert(not done and message == 'not enough memory' and #t > 500)
        t = nil collectgarbage()
        t = ('x'):rep(20000)",
    );
    assert_eq!(ran, ffi::LUA_OK);
    assert_eq!(vm.run("x = ('x'):rep(200000)"), ffi::LUA_ERRMEM);
    assert!(vm.memory().peak() <= vm.memory().limit());
}

#[test]
fn an_idle_vm_wastes_less_than_2_kib() {
    let vm = Vm::new();
    let count = vm.run("collectgarbage() collectgarbage()");
    assert_eq!(count, ffi::LUA_OK);
    let (held, idle) = vm.memory().arena.idle();
    println!("used {}, in chunks {held}, idle {idle}", vm.memory().used());
    assert!(idle < 2048, "{idle} bytes of {held} are idle");
}
