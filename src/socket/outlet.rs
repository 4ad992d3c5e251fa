//! Outlets: connections that other VMs of the process may write to, beside the one that owns them. What
//! `lio.net.remote` sends goes out through one, so that no thread has to be woken for it.
//!
//! An outlet has a number, under which every VM finds it. Invariant: the descriptor is used under the outlet's
//! lock only, and the socket takes it out of there, under the same lock, before it closes it or gives it away.

use super::{Phase, Socket, retried};
use crate::raw::object::{self, Object};
use crate::raw::{Fault, Function, args, functions, guard, module, settle};
use mlua::ffi::{self, lua_State};
use socket2::SockRef;
use std::collections::HashMap;
use std::ffi::CStr;
use std::io::{self, IoSlice};
use std::os::fd::{BorrowedFd, RawFd};
use std::os::raw::c_int;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

/// So many strings go out in one call; who has more sends them otherwise.
const PIECES: usize = 16;

/// See the file's head. The descriptor is -1 once the socket has it no more.
struct Outlet(Mutex<RawFd>);

/// A socket's own outlet: goes with it.
pub(crate) struct Opened {
    number: u64,
    outlet: Arc<Outlet>,
}

struct Outlets {
    last: u64,
    open: HashMap<u64, Weak<Outlet>>,
}

static OUTLETS: LazyLock<Mutex<Outlets>> = LazyLock::new(|| {
    // Where a process has the library twice, each has its own numbers.
    let first = (&raw const OUTLETS).addr() as u64;
    Mutex::new(Outlets {
        last: first << 16 >> 1,
        open: HashMap::new(),
    })
});

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Opened {
    fn drop(&mut self) {
        lock(&OUTLETS).open.remove(&self.number);
        *lock(&self.outlet.0) = -1;
    }
}

impl Socket {
    /// The number of its outlet, made at first use; `None` for anything but a connection of its own.
    pub(crate) fn outlet(&mut self) -> Option<u64> {
        if let Some(opened) = &self.outlet {
            return Some(opened.number);
        }
        let number = self.number();
        if number < 0 || !self.owns || !self.stream || self.phase != Phase::Connected {
            return None;
        }
        let outlet = Arc::new(Outlet(Mutex::new(number)));
        let mut all = lock(&OUTLETS);
        all.last += 1;
        let number = all.last;
        all.open.insert(number, Arc::downgrade(&outlet));
        drop(all);
        self.outlet = Some(Box::new(Opened { number, outlet }));
        Some(number)
    }
}

impl Outlet {
    fn find(number: u64) -> Option<Arc<Outlet>> {
        lock(&OUTLETS).open.get(&number)?.upgrade()
    }

    /// How many bytes the system took; `None` when the socket is gone.
    fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        let number = lock(&self.0);
        if *number < 0 {
            return Ok(None);
        }
        // SAFETY: the socket does not close it while the lock is held.
        let socket = unsafe { BorrowedFd::borrow_raw(*number) };
        let socket = SockRef::from(&socket);
        let sent = retried(|| match pieces {
            [one] => socket.send_with_flags(one, libc::MSG_NOSIGNAL),
            many => socket.send_vectored_with_flags(many, libc::MSG_NOSIGNAL),
        });
        match sent {
            Ok(count) => Ok(Some(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Some(0)),
            Err(error) => Err(error),
        }
    }
}

/// An outlet as another VM has it.
struct Handle(Arc<Outlet>);

impl Object for Handle {
    const NAME: &'static CStr = c"lio.outlet";
    const METHODS: &'static [(&'static CStr, Function)] = functions![(c"send", send)];
}

/// `outlet.find(number)` → the outlet; nil when the connection is gone.
unsafe extern "C-unwind" fn find(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; what is found goes into the userdata with nothing between.
    unsafe {
        let number = args::integer_in(state, 1, 1, i64::MAX, "number") as u64;
        if object::push_new(state, || Outlet::find(number).map(Handle).ok_or(())).is_err() {
            ffi::lua_pushnil(state);
        }
        1
    }
}

/// `o:send(data, …)` → how many bytes the system took, and whether these are all; nil alone when the
/// connection is gone, or these are not strings that go out at once; `nil, message, code` on failure.
unsafe extern "C-unwind" fn send(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; the slices point into arguments, which stay on the stack.
    unsafe {
        object::check::<Handle>(state, 1);
        let last = ffi::lua_gettop(state);
        let count = (last - 1) as usize;
        let strings = (2..=last).all(|index| match ffi::lua_type(state, index) {
            ffi::LUA_TSTRING => true,
            // Becomes a string where it lies.
            ffi::LUA_TNUMBER => !ffi::lua_tolstring(state, index, std::ptr::null_mut()).is_null(),
            _ => false,
        });
        if !strings || count == 0 || count > PIECES {
            ffi::lua_pushnil(state);
            return 1;
        }
        // Looked up behind the arguments: making a number a string may run a finalizer.
        let outlet = object::check::<Handle>(state, 1);
        let result = guard(|| {
            let mut pieces = [IoSlice::new(&[]); PIECES];
            let mut total = 0;
            for (piece, index) in pieces.iter_mut().zip(2..=last) {
                let mut length = 0;
                let start = ffi::lua_tolstring(state, index, &mut length);
                *piece = IoSlice::new(std::slice::from_raw_parts(start.cast(), length));
                total += length;
            }
            let sent = (*outlet).0.send(&pieces[..count]);
            Ok(sent
                .map(|sent| sent.map(|sent| (sent, sent == total)))
                .map_err(|error| Fault::io("send", &error)))
        });
        match settle(state, result) {
            Ok(Some((sent, all))) => {
                ffi::lua_pushinteger(state, sent as i64);
                ffi::lua_pushboolean(state, all.into());
                2
            }
            Ok(None) => {
                ffi::lua_pushnil(state);
                1
            }
            Err(fault) => fault.push(state),
        }
    }
}

/// Opens `lio.outlet`.
///
/// # Safety
/// Called by Lua's `require`.
pub(crate) unsafe extern "C-unwind" fn open_module(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        module::push(state, functions![(c"find", find)]);
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selector::descriptor::Owned;
    use crate::socket::Moved;
    use std::mem::MaybeUninit;
    use std::rc::Rc;

    fn received(socket: &Socket) -> usize {
        let mut room = [MaybeUninit::<u8>::uninit(); 256];
        match socket.receive(&mut room).unwrap() {
            Moved::Done(count) => count,
            Moved::WouldBlock => panic!("nothing came"),
        }
    }

    #[test]
    fn what_is_sent_through_an_outlet_arrives() {
        let (mut near, far) = Socket::pair(&Rc::new(Owned::default())).unwrap();
        let number = near.outlet().unwrap();
        assert_eq!(near.outlet(), Some(number));
        let outlet = Outlet::find(number).unwrap();
        let pieces = [IoSlice::new(b"ab"), IoSlice::new(b"c")];
        assert_eq!(outlet.send(&pieces).unwrap(), Some(3));
        assert_eq!(received(&far), 3);
    }

    #[test]
    fn an_outlet_goes_with_its_socket() {
        let (mut near, _far) = Socket::pair(&Rc::new(Owned::default())).unwrap();
        let number = near.outlet().unwrap();
        let outlet = Outlet::find(number).unwrap();
        let mut moved = near.take();
        assert!(near.outlet().is_none());
        assert_eq!(outlet.send(&[IoSlice::new(b"x")]).unwrap(), Some(1));
        moved.close();
        assert_eq!(outlet.send(&[IoSlice::new(b"x")]).unwrap(), None);
        assert!(Outlet::find(number).is_none());
    }

    #[test]
    fn an_outlet_does_not_follow_a_socket_that_is_given_away() {
        let (mut near, _far) = Socket::pair(&Rc::new(Owned::default())).unwrap();
        let outlet = Outlet::find(near.outlet().unwrap()).unwrap();
        let parts = near.part().unwrap();
        assert_eq!(outlet.send(&[IoSlice::new(b"x")]).unwrap(), None);
        drop(parts);
    }

    #[test]
    fn a_full_socket_takes_nothing() {
        let (mut near, _far) = Socket::pair(&Rc::new(Owned::default())).unwrap();
        let outlet = Outlet::find(near.outlet().unwrap()).unwrap();
        let block = vec![0; 1 << 20];
        let mut last = usize::MAX;
        while last != 0 {
            last = outlet.send(&[IoSlice::new(&block)]).unwrap().unwrap();
        }
    }
}
