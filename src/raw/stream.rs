//! What raw functions that are left do with streams. // bridge
//!
//! Invariant: each byte is handed out once. What is handed over counts as consumed before Lua allocates, so that a
//! finalizer that reads the same stream finds what follows; and no reference to the stream is held meanwhile.

use super::object::{self, Key, Object};
use super::{Fault, Function, guard, raise, settle};
use crate::event::READ;
use crate::socket::{Moved, Socket};
use crate::stream::{Pool, Stream, Transport};
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::io;
use std::rc::Rc;

/// Pushes the buffered bytes `from..to` and drops the first `consume`. A raise for want of memory loses them, unless
/// the next call is one that hands over.
///
/// # Safety
/// The stream's userdata is on the stack, and the range is buffered; no reference to the stream may be in use, and
/// nothing that needs `Drop` be alive.
pub(crate) unsafe fn hand_over(
    state: *mut lua_State,
    stream: *mut Stream,
    from: usize,
    to: usize,
    consume: usize,
) {
    // SAFETY: what is lent lies still until Lua has copied it; finalizers, which may use or drop the stream, run
    // after that.
    unsafe {
        let start = (*stream).buffered()[from..to].as_ptr();
        (*stream).lend(consume, consume);
        ffi::lua_pushlstring(state, start.cast(), to - from);
        if object::is_alive(stream) {
            (*stream).handed_over();
        }
    }
}

struct PoolHolder(Rc<Pool>);

impl Object for PoolHolder {
    const NAME: &'static CStr = c"lio.buffers of this VM";
    const METHODS: &'static [(&'static CStr, Function)] = &[];
}

static POOL: Key = Key::new(5);

/// The VM's buffer pool, which lives as long as the VM.
///
/// # Safety
/// `state` is valid, with 8 free stack slots; nothing that needs `Drop` may be alive.
pub(crate) unsafe fn shared_pool(state: *mut lua_State) -> *const Rc<Pool> {
    // SAFETY: the registry keeps the holder.
    unsafe {
        ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, POOL.pointer());
        if object::test::<PoolHolder>(state, -1).is_none() {
            ffi::lua_pop(state, 1);
            let Ok(_) = object::push_new(state, || {
                let shared = crate::lua::home::shared::<Pool>(state);
                Ok::<_, std::convert::Infallible>(PoolHolder(shared.unwrap_or_default()))
            });
            ffi::lua_pushvalue(state, -1);
            ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, POOL.pointer());
        }
        let holder = object::check::<PoolHolder>(state, -1);
        ffi::lua_pop(state, 1);
        &raw const (*holder).0
    }
}

/// What accepting came to.
#[derive(Clone, Copy)]
pub(crate) enum Accepted {
    /// It is in no selector.
    Stream(*mut Stream),
    /// Nobody is there; the listener is armed.
    Nobody,
    Failed(Fault),
}

/// Arms a listener at which nobody is.
fn armed_listener(listener: &Socket) -> Accepted {
    match listener.arm(READ) {
        Ok(()) => Accepted::Nobody,
        Err(error) => Accepted::Failed(Fault::io("accept", &error)),
    }
}

/// Accepts a connection for `stream`, which is closed, if there is one.
///
/// # Safety
/// Both pointers are to living objects; nothing that needs `Drop` may be alive.
pub(crate) unsafe fn accept_for(
    state: *mut lua_State,
    listener: *const Socket,
    stream: *mut Stream,
) -> Accepted {
    // SAFETY: the caller's promise.
    unsafe {
        let accepted = guard(|| {
            Ok(match (*listener).accept() {
                Ok(Moved::Done(socket)) => {
                    (*stream).renew(Transport::Plain(socket));
                    Accepted::Stream(stream)
                }
                Ok(Moved::WouldBlock) => armed_listener(&*listener),
                Err(error) => Accepted::Failed(Fault::io("accept", &error)),
            })
        });
        settle(state, accepted)
    }
}

/// Pushes a closed stream like `stream`.
///
/// # Safety
/// As for [`object::push_new`]; `stream` is kept while finalizers run, which may drop it: then this raises.
pub(crate) unsafe fn push_closed(state: *mut lua_State, stream: *mut Stream) -> *mut Stream {
    // SAFETY: the caller's promise.
    unsafe {
        let made = object::push_new(state, || {
            object::living(stream)
                .map(|stream| stream.closed_twin())
                .ok_or(())
        });
        match made {
            Ok(made) => made,
            Err(()) => raise(state, crate::raw::closed_text("the connection")),
        }
    }
}

/// Accepts, unless a finalizer has dropped the listener.
unsafe fn accept_on(listener: *mut Socket) -> io::Result<Moved<Socket>> {
    // SAFETY: the listener is kept; nothing of Lua's is called.
    match unsafe { object::living(listener) } {
        Some(listener) => listener.accept(),
        None => Err(io::Error::from_raw_os_error(libc::EBADF)),
    }
}

/// Accepts a connection and pushes it, if there is one.
///
/// # Safety
/// As for [`object::push_new`]; the listener is kept while finalizers run.
pub(crate) unsafe fn push_accepted(
    state: *mut lua_State,
    listener: *mut Socket,
    pool: &Rc<Pool>,
) -> Accepted {
    // SAFETY: the caller's promise.
    unsafe {
        let mut blocked = false;
        let accepted = object::push_new(state, || match accept_on(listener) {
            Ok(Moved::Done(socket)) => Ok(Stream::new(Transport::Plain(socket), pool)),
            Ok(Moved::WouldBlock) => {
                blocked = true;
                Err(Fault::os("accept", libc::EAGAIN))
            }
            Err(error) => Err(Fault::io("accept", &error)),
        });
        match accepted {
            Ok(stream) => Accepted::Stream(stream),
            Err(_) if blocked => settle(state, guard(|| Ok(armed_listener(&*listener)))),
            Err(fault) => Accepted::Failed(fault),
        }
    }
}
