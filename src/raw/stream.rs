//! What raw functions that are left do with streams. // bridge
//!
//! Invariant: each byte is handed out once. What is handed over counts as consumed before Lua allocates, so that a
//! finalizer that reads the same stream finds what follows; and no reference to the stream is held meanwhile.

use super::object::{self, Key, Object};
use super::{Fault, Function, Text, args, guard, raise, settle};
use crate::event::{Mode, READ};
use crate::raw::selector::{self as descriptor, Descriptor, attach};
use crate::socket::{Moved, Socket};
use crate::stream::{Pool, Stream, Transport};
use mlua::ffi::{self, lua_State};
use std::ffi::CStr;
use std::io;
use std::os::raw::c_int;
use std::rc::Rc;

/// Pushes the buffered bytes `from..to` and drops the first `consume`. A raise for want of memory loses them, unless
/// the next call is one of [`push_taken`].
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

unsafe fn descriptor_of(state: *mut lua_State, index: c_int) -> Descriptor {
    // SAFETY: only streams get here.
    unsafe {
        (*object::check::<Stream>(state, index))
            .transport
            .socket()
            .descriptor()
    }
}

struct PoolHolder(Rc<Pool>);

impl Object for PoolHolder {
    const NAME: &'static CStr = c"lio.buffers of this VM";
    const METHODS: &'static [(&'static CStr, Function)] = &[];
}

/// The stream at argument `index`.
///
/// # Safety
/// Nothing that needs `Drop` may be alive; only one reference may be in use at a time.
pub(crate) unsafe fn check<'a>(state: *mut lua_State, index: c_int) -> &'a mut Stream {
    // SAFETY: the argument stays on the stack while the caller runs.
    unsafe { &mut *object::check::<Stream>(state, index) }
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
                let shared = crate::lua::store::shared::<Pool>(state);
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

/// Registers the stream on top of the stack with the selector at index 1; returns how many results.
/// One that is refused is closed at once: nobody could wait on it.
unsafe fn register(state: *mut lua_State) -> c_int {
    // SAFETY: a stream is on top.
    unsafe {
        let at = ffi::lua_gettop(state);
        let descriptor = descriptor_of(state, at);
        ffi::lua_pushvalue(state, at);
        match attach(state, 1, at, descriptor, 0, Mode::Once) {
            Ok(()) => 1,
            Err(fault) => {
                let stream = check(state, at);
                settle(state, guard(|| Ok(stream.close())));
                fault.push(state)
            }
        }
    }
}

/// `stream.watch(selector, socket)`: registers a listener, a datagram socket or one that is connecting,
/// asking for nothing; `selector:arm` and `accept` ask for one event at a time. `true`, or
/// `nil, message, code`.
pub(crate) unsafe extern "C-unwind" fn watch(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        let descriptor = (*object::check::<Socket>(state, 2)).descriptor();
        if descriptor.number < 0 {
            args::argument_error(state, 2, Text::new("socket is already closed"));
        }
        ffi::lua_pushvalue(state, 2);
        match attach(state, 1, 2, descriptor, 0, Mode::Once) {
            Ok(()) => {
                ffi::lua_pushboolean(state, 1);
                1
            }
            Err(fault) => fault.push(state),
        }
    }
}

/// `stream.new(selector, socket)` → a stream that has taken the socket over; the socket object reads as
/// closed then. `nil, message, code` when the selector refuses it, which closes it.
pub(crate) unsafe extern "C-unwind" fn new(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; the socket moves from one userdata to another with nothing between.
    unsafe {
        let pool = &*shared_pool(state);
        let socket = object::check::<Socket>(state, 2);
        if (*socket).is_closed() {
            args::argument_error(state, 2, Text::new("socket is already closed"));
        }
        if let Some(source) = (*socket).source() {
            source.release(true);
        }
        // A finalizer that has run since may have dropped the socket.
        let made = object::push_new(state, || {
            let socket = object::living(socket).ok_or(())?;
            Ok::<_, ()>(Stream::new(Transport::Plain(socket.take()), pool))
        });
        if made.is_err() {
            args::type_error(state, 2, Socket::NAME);
        }
        register(state)
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
            Err(()) => raise(state, object::closed_text("the connection")),
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

/// `stream.accept(selector, listener)` → a stream; `false` when nobody is there, the listener being
/// armed; `nil, message, code` on failure.
pub(crate) unsafe extern "C-unwind" fn accept(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        let pool = &*shared_pool(state);
        let listener = object::check::<Socket>(state, 2);
        match push_accepted(state, listener, pool) {
            Accepted::Stream(_) => register(state),
            Accepted::Nobody => {
                ffi::lua_pushboolean(state, 0);
                1
            }
            Accepted::Failed(fault) => fault.push(state),
        }
    }
}

/// `stream.adopt(selector, number)` → the stream that was sent off; `nil, message, code` when somebody
/// has taken it, or the selector refuses it: then it is there for the sender to take back.
pub(crate) unsafe extern "C-unwind" fn adopt(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        let pool = &*shared_pool(state);
        let number = args::integer_in(state, 2, 1, i64::MAX, "number") as u64;
        let owned = &*descriptor::table(state);
        let made = object::push_new(state, || {
            let gone = Fault::word("adopt", "the connection is gone", "closed");
            Stream::of_parcel(number, pool, owned).ok_or(gone)
        });
        let stream = match made {
            Ok(stream) => stream,
            Err(fault) => return fault.push(state),
        };
        let at = ffi::lua_gettop(state);
        let descriptor = descriptor_of(state, at);
        ffi::lua_pushvalue(state, at);
        match attach(state, 1, at, descriptor, 0, Mode::Once) {
            Ok(()) => 1,
            Err(fault) => {
                settle(state, guard(|| Ok((*stream).send_off(number))));
                fault.push(state)
            }
        }
    }
}

/// `stream.take_back(selector, s)`: a stream that was sent off is again what it was → `true`;
/// `nil, message, code` when somebody has taken it.
pub(crate) unsafe extern "C-unwind" fn take_back(state: *mut lua_State) -> c_int {
    // SAFETY: as for `new`.
    unsafe {
        let stream = check(state, 2);
        if !settle(state, guard(|| Ok(stream.take_back()))) {
            return Fault::word("take_back", "the connection is gone", "closed").push(state);
        }
        ffi::lua_settop(state, 2);
        let count = register(state);
        if count == 1 {
            ffi::lua_pushboolean(state, 1);
        }
        count
    }
}
