//! How connections come to a keeper: accepted from its listener, or given by the program. Where nothing else is to be
//! done [`ready`] accepts as soon as the loop hears of them; what is not that simple is left to the task of
//! lualib/lio/net/serve.lua, which calls `keeper:accept`.
//!
//! Invariant: whoever accepts goes on until nobody is there, which arms the listener, or asks for another event.

use super::connection::{self, Connection, STREAM};
use super::due;
use super::keeper::{self, Keeper, LISTENER};
use crate::event::{Mode, READ};
use crate::raw::object::{self, Object};
use crate::raw::stream::{self, Accepted};
use crate::raw::{Fault, Text, guard, raise, settle};
use crate::socket::Socket;
use crate::stream::Stream;
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

/// So many are accepted at once; then others get their turn.
const BATCH: usize = 64;

/// What accepting came to.
enum Taken {
    /// Nobody is there any more; the listener is armed.
    All,
    /// There may be more.
    Some,
    /// There are as many connections as may be.
    Full,
    Failed(Fault),
}

/// Accepts for the keeper at `at` of the selector at `selector`; at most `most`, and with `beyond` more than there may be.
/// Returns how many there were.
///
/// # Safety
/// `state` has 20 free stack slots; Lua code may run: finalizers.
unsafe fn take(
    state: *mut lua_State,
    selector: c_int,
    at: c_int,
    most: usize,
    beyond: bool,
) -> (usize, Taken) {
    // SAFETY: the keeper stays on the stack; the rest is looked at anew in each turn.
    unsafe {
        let keeper = object::check::<Keeper>(state, at);
        let top = ffi::lua_gettop(state);
        let pool = stream::shared_pool(state);
        ffi::lua_getiuservalue(state, at, LISTENER);
        for count in 0..most {
            ffi::lua_settop(state, top + 1);
            if !object::is_alive(keeper) {
                return (count, Taken::All);
            }
            if (*keeper).is_full() && !beyond {
                (*keeper).awaited = true;
                return (count, Taken::Full);
            }
            let listener = object::check::<Socket>(state, top + 1);
            let spare = keeper::push_spare(state, at, keeper);
            let accepted = match spare {
                Some(connection) => stream::accept_for(state, listener, (*connection).stream),
                None => stream::push_accepted(state, listener, &*pool),
            };
            if let Some(connection) = spare
                && !matches!(accepted, Accepted::Stream(_))
            {
                keeper::keep_spare(state, top + 2, (*connection).keeper);
            }
            match accepted {
                Accepted::Stream(stream) => {
                    let connection = match spare {
                        Some(connection) => {
                            settle(state, guard(|| Ok((*connection).renew())));
                            connection
                        }
                        None => {
                            let made = connection::push_served(state, top + 2, stream, at);
                            ffi::lua_replace(state, top + 2);
                            made
                        }
                    };
                    if let Err(fault) = welcome(state, selector, top + 2, connection) {
                        return (count, Taken::Failed(fault));
                    }
                }
                Accepted::Nobody => return (count, Taken::All),
                Accepted::Failed(fault) => return (count, Taken::Failed(fault)),
            }
        }
        (most, Taken::Some)
    }
}

/// Takes in the connection of the exchange at the absolute index `at`, on top of the stack, that no selector knows.
unsafe fn welcome(
    state: *mut lua_State,
    selector: c_int,
    at: c_int,
    connection: *mut Connection,
) -> Result<(), Fault> {
    // SAFETY: the exchange stays on the stack, and keeps its stream.
    unsafe {
        if !(*connection).is_whole() {
            raise(state, Text::new(connection::GONE));
        }
        let (_, stream) = (*connection).parts();
        let descriptor = stream.transport.socket().descriptor();
        ffi::lua_getiuservalue(state, at, STREAM);
        ffi::lua_pushvalue(state, at);
        let attached =
            crate::raw::selector::attach_later(state, selector, at + 1, descriptor, Mode::Once);
        if let Err(fault) = attached {
            let (_, stream) = (*connection).parts();
            settle(state, guard(|| Ok(stream.close())));
            return Err(fault);
        }
        keeper::enter(state, at, connection);
        due::arrived(state, at, connection);
        Ok(())
    }
}

/// The keeper on top of the stack, at the time of an event of its listener: accepts. → true when that was all; false
/// with the listener in the place of the keeper, when Lua has to look at it.
///
/// # Safety
/// As for [`take`]; the selector is at `selector`.
pub(super) unsafe fn ready(state: *mut lua_State, selector: c_int, keeper: *mut Keeper) -> bool {
    // SAFETY: as for `take`.
    unsafe {
        let at = ffi::lua_gettop(state);
        ffi::luaL_checkstack(state, 24, std::ptr::null());
        if (*keeper).is_whole() {
            let (_, taken) = take(state, selector, at, BATCH, false);
            match taken {
                Taken::All => {
                    ffi::lua_settop(state, at - 1);
                    return true;
                }
                Taken::Some if (*keeper).is_whole() => {
                    let listener = (*keeper).listener;
                    // A listener that cannot be armed is Lua's to look at.
                    if settle(state, guard(|| Ok((*listener).arm(READ).is_ok()))) {
                        ffi::lua_settop(state, at - 1);
                        return true;
                    }
                }
                _ => {}
            }
        }
        ffi::lua_settop(state, at);
        ffi::lua_getiuservalue(state, at, LISTENER);
        ffi::lua_replace(state, at);
        false
    }
}

impl Keeper {
    /// Whether it has a listener that is open.
    fn is_whole(&self) -> bool {
        // SAFETY: the user value keeps the block; a finalizer may have run.
        unsafe {
            !self.listener.is_null()
                && object::is_alive(self.listener)
                && !(*self.listener).is_closed()
        }
    }
}

/// `keeper:listen(socket)`: connections come from that one.
pub(super) unsafe extern "C-unwind" fn listen(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let keeper = object::check::<Keeper>(state, 1);
        let socket = object::check::<Socket>(state, 2);
        ffi::lua_settop(state, 2);
        ffi::lua_setiuservalue(state, 1, LISTENER);
        (*keeper).listener = socket;
        0
    }
}

/// `keeper:accept(selector [, all])` → true when there may be more, or no room for them; false when nobody was there,
/// the listener being armed; `nil, message, code` on failure. `all`: also where there is no room.
pub(super) unsafe extern "C-unwind" fn accept(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        let keeper = object::check::<Keeper>(state, 1);
        let all = ffi::lua_toboolean(state, 3) != 0;
        ffi::lua_settop(state, 2);
        ffi::luaL_checkstack(state, 24, std::ptr::null());
        if !(*keeper).is_whole() {
            return Fault::word("accept", "the listener is closed", "closed").push(state);
        }
        match take(state, 2, 1, BATCH, all) {
            (0, Taken::All) => ffi::lua_pushboolean(state, 0),
            (0, Taken::Failed(fault)) => return fault.push(state),
            _ => ffi::lua_pushboolean(state, 1),
        }
        1
    }
}

/// `keeper:admit(selector, c)`: serves a connection of the selector's, as if it had been accepted.
pub(super) unsafe extern "C-unwind" fn admit(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell.
    unsafe {
        object::check::<Keeper>(state, 1);
        let stream = object::check::<Stream>(state, 3);
        ffi::lua_settop(state, 3);
        let connection: *mut Connection = connection::push_served(state, 3, stream, 1);
        if !(*connection).is_whole() {
            raise(state, Text::new(connection::GONE));
        }
        let descriptor = (*stream).transport.socket().descriptor();
        if !crate::raw::selector::replace_udata(state, 2, descriptor, 4) {
            raise(
                state,
                Text::format(format_args!(
                    "admit: the {} is in no loop",
                    Stream::NAME.to_string_lossy()
                )),
            );
        }
        keeper::enter(state, 4, connection);
        due::arrived(state, 4, connection);
        0
    }
}
