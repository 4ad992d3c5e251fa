//! The VM that the executable runs a script in: Lua's own, but with mimalloc's memory for small blocks, which costs
//! a third of what malloc(3) does. Called by `script.rs`.
//!
//! With `LIO_MALLOC=libc` in the environment, or the feature `plain_malloc`, all memory comes from malloc(3), which
//! memory checkers watch.

use mlua::ffi::{self, lua_State};
use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::io::Write;

/// A new VM; null when there is not enough memory.
///
/// # Safety
/// The caller closes it.
pub(crate) unsafe fn new() -> *mut lua_State {
    // SAFETY: the allocator needs no data.
    unsafe {
        let libc = std::env::var_os("LIO_MALLOC").is_some_and(|name| name == "libc");
        if cfg!(feature = "plain_malloc") || libc {
            return ffi::luaL_newstate();
        }
        mi_option_set(ARENA_EAGER_COMMIT, 0);
        libc::free(std::hint::black_box(libc::malloc(KEPT / 2)));
        #[cfg(feature = "lua55")]
        let state = ffi::lua_newstate(allocate, std::ptr::null_mut(), seed());
        #[cfg(not(feature = "lua55"))]
        let state = ffi::lua_newstate(allocate, std::ptr::null_mut());
        if !state.is_null() {
            // As `luaL_newstate` does.
            ffi::lua_atpanic(state, panicked);
            let warn = if cfg!(feature = "lua55") {
                warn_on
            } else {
                warn_off
            };
            ffi::lua_setwarnf(state, Some(warn), state.cast());
        }
        state
    }
}

// Neither is in the crate's list of options.
unsafe extern "C" {
    fn mi_option_set(option: c_int, value: c_long);
}

/// Whether an arena has all its memory from the beginning. With it, a system that backs large mappings by huge pages
/// gives a small program 5 MiB that it does not use.
const ARENA_EAGER_COMMIT: c_int = 4;

/// Lets the collector of a VM run, in the mode in which the stock interpreter runs programs: generational.
///
/// # Safety
/// `state` is valid.
pub(crate) unsafe fn start_collector(state: *mut lua_State) {
    // SAFETY: the collector may run at any call here; the modes' parameters stay as they are.
    unsafe {
        ffi::lua_gc(state, ffi::LUA_GCRESTART);
        #[cfg(feature = "lua55")]
        ffi::lua_gc(state, ffi::LUA_GCGEN);
        #[cfg(not(feature = "lua55"))]
        ffi::lua_gc(state, ffi::LUA_GCGEN, 0 as c_int, 0 as c_int);
    }
}

/// What strings' hashes begin with: not to be guessed from outside.
#[cfg(feature = "lua55")]
fn seed() -> std::ffi::c_uint {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id()) as std::ffi::c_uint
}

/// So much at the end of its heap the C library may keep for the next large blocks. glibc's own limit is 128 KiB, two
/// messages of 64 KiB, whose pages would come from the system again and again; it is twice the largest block that was
/// freed, up to 64 MiB.
const KEPT: usize = 2 << 20;

/// Larger blocks are malloc's: it gives the pages of those back to the system at once, and grows them in place.
const SMALL: usize = 32 * 1024;

unsafe extern "C" fn allocate(
    _: *mut c_void,
    block: *mut c_void,
    old: usize,
    new: usize,
) -> *mut c_void {
    // SAFETY: Lua tells the size of each block rightly, which tells whose it is, and frees it once.
    unsafe {
        if block.is_null() {
            // Then `old` is a kind of object. Size 0 when Lua frees what it never had.
            return match new {
                0 => block,
                1..=SMALL => libmimalloc_sys::mi_malloc(new),
                _ => libc::malloc(new),
            };
        }
        match (old <= SMALL, new <= SMALL) {
            (true, _) if new == 0 => {
                libmimalloc_sys::mi_free(block);
                std::ptr::null_mut()
            }
            (false, _) if new == 0 => {
                libc::free(block);
                std::ptr::null_mut()
            }
            (true, true) => libmimalloc_sys::mi_realloc(block, new),
            (false, false) => libc::realloc(block, new),
            (was_small, _) => {
                let moved = allocate(std::ptr::null_mut(), std::ptr::null_mut(), 0, new);
                if !moved.is_null() {
                    std::ptr::copy_nonoverlapping(
                        block.cast::<u8>(),
                        moved.cast::<u8>(),
                        old.min(new),
                    );
                    match was_small {
                        true => libmimalloc_sys::mi_free(block),
                        false => libc::free(block),
                    }
                }
                moved
            }
        }
    }
}

/// An error that nobody catches: Lua is about to abort the process.
unsafe extern "C-unwind" fn panicked(state: *mut lua_State) -> c_int {
    // SAFETY: the message is on top; what `lua_tolstring` gives lives as long as it is there.
    unsafe {
        let text = match ffi::lua_type(state, -1) {
            ffi::LUA_TSTRING => CStr::from_ptr(ffi::lua_tostring(state, -1)).to_string_lossy(),
            _ => "error object is not a string".into(),
        };
        let _ = writeln!(
            std::io::stderr(),
            "PANIC: unprotected error in call to Lua API ({text})"
        );
        0
    }
}

/// Whether a warning that is told in one piece, not to be continued, is `word`.
unsafe fn is_control(message: *const c_char, continues: c_int, word: &CStr) -> bool {
    // SAFETY: Lua passes a C string.
    continues == 0 && unsafe { CStr::from_ptr(message) } == word
}

/// Warnings are off, as in a new VM of Lua 5.4: only `warn("@on")` is heard. Lua 5.5 begins with them on.
unsafe extern "C-unwind" fn warn_off(data: *mut c_void, message: *const c_char, continues: c_int) {
    // SAFETY: the data is the VM.
    unsafe {
        if is_control(message, continues, c"@on") {
            ffi::lua_setwarnf(data.cast(), Some(warn_on), data);
        }
    }
}

/// The beginning of a warning.
unsafe extern "C-unwind" fn warn_on(data: *mut c_void, message: *const c_char, continues: c_int) {
    // SAFETY: as for `warn_off`.
    unsafe {
        if is_control(message, continues, c"@off") {
            return ffi::lua_setwarnf(data.cast(), Some(warn_off), data);
        }
        if continues == 0 && *message == b'@' as c_char {
            return;
        }
        let _ = std::io::stderr().write_all(b"Lua warning: ");
        warn_more(data, message, continues);
    }
}

/// More of a warning.
unsafe extern "C-unwind" fn warn_more(data: *mut c_void, message: *const c_char, continues: c_int) {
    // SAFETY: as for `warn_off`.
    unsafe {
        let mut out = std::io::stderr();
        let _ = out.write_all(CStr::from_ptr(message).to_bytes());
        if continues != 0 {
            return ffi::lua_setwarnf(data.cast(), Some(warn_more), data);
        }
        let _ = out.write_all(b"\n");
        ffi::lua_setwarnf(data.cast(), Some(warn_on), data);
    }
}
