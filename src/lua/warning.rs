//! Warnings, which the VM of a program writes to standard error.

use super::vm_context::{VmContext, Warnings};
use mlua::ffi::{self, lua_State};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Write;

impl VmContext {
    /// Sets the function that writes the VM's warnings.
    pub(super) fn warn(&self, state: *mut lua_State) {
        // SAFETY: the state belongs to the VM, and the context outlives the VM.
        unsafe {
            let context = std::ptr::from_ref(self).cast_mut().cast();
            ffi::lua_setwarnf(state, Some(write_warning), context);
        }
    }
}

unsafe extern "C-unwind" fn write_warning(context: *mut c_void, message: *const c_char, continues: c_int) {
    // SAFETY: Lua passes the context that was set with the function, and a C string.
    let (state, message) = unsafe {
        let state = &(*context.cast::<VmContext>()).warnings;
        (state, CStr::from_ptr(message).to_bytes())
    };
    let continues = continues != 0;
    let now = state.get();
    // A control message is never split.
    let is_control = now != Warnings::Continued && !continues && message.starts_with(b"@");
    if is_control {
        match message {
            b"@on" => state.set(Warnings::On),
            b"@off" => state.set(Warnings::Off),
            _ => {}
        }
        return;
    }
    if now == Warnings::Off {
        return;
    }
    let mut out = std::io::stderr();
    let start: &[u8] = match now {
        Warnings::On => b"Lua warning: ",
        _ => b"",
    };
    let end: &[u8] = if continues { b"" } else { b"\n" };
    for piece in [start, message, end] {
        let _ = out.write_all(piece);
    }
    state.set(match continues {
        true => Warnings::Continued,
        false => Warnings::On,
    });
}
