//! Files on a stream: what is queued goes out first, then the file, by the kernel, a turn at a time.
//!
//! `put_file` is what `net.sendfile` stands on, `queue_file` what the web server sends small files with.
//! The descriptor is looked up for each call: who closes the file meanwhile ends the transfer.

use super::Stream;
use super::lua::check;
use super::transfer::failed;
use crate::event::{WRITE, adopt};
use crate::raw::file::{self as file_lua, read_at};
use crate::raw::{Fault, args, guard, settle};
use crate::socket::Moved;
use mlua::ffi::{self, lua_State};
use std::ffi::c_int;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};

/// So many bytes of a file go out in one turn; then others get theirs.
const TURN: u64 = 512 * 1024;

/// How far a turn has come.
#[derive(Clone, Copy)]
enum Turn {
    /// All is taken by the system.
    Done,
    /// The rest is for another turn; the stream is armed.
    Later,
    /// The file ended before.
    Short,
}

impl Stream {
    /// Sends the queue and then the bytes from `offset` to `offset + length` of the file, of which `sent`
    /// are gone already; updates `sent`.
    fn send_file(
        &mut self,
        file: BorrowedFd<'_>,
        offset: u64,
        length: u64,
        sent: &mut u64,
    ) -> io::Result<Turn> {
        let until = length.min(sent.saturating_add(TURN));
        loop {
            if self.queued() > 0 {
                if !self.send_queue(*sent < length)? {
                    return Ok(Turn::Later);
                }
                continue;
            }
            if *sent >= length {
                self.messages = self.messages.saturating_add(1);
                return Ok(Turn::Done);
            }
            if *sent >= until {
                return self.go_on_later();
            }
            let want = (until - *sent) as usize;
            match self.transport.send_file(file, offset + *sent, want)? {
                Moved::Done(0) => return Ok(Turn::Short),
                Moved::Done(count) => {
                    *sent += count as u64;
                    self.written += count as u64;
                    if count < want {
                        return self.go_on_later();
                    }
                }
                Moved::WouldBlock => return self.go_on_later(),
            }
        }
    }

    fn go_on_later(&mut self) -> io::Result<Turn> {
        self.messages = 0;
        self.transport.arm(WRITE)?;
        Ok(Turn::Later)
    }

    /// Sends what is queued, with `more` to follow at once. False when it would block, the stream being
    /// armed.
    fn send_queue(&mut self, more: bool) -> io::Result<bool> {
        let queue = &self.output[self.output_done..];
        let asked = queue.len();
        let moved = match more {
            true => self.transport.send_more(queue)?,
            false => self.transport.send(queue)?,
        };
        let Moved::Done(count) = moved else {
            self.go_on_later()?;
            return Ok(false);
        };
        self.written += count as u64;
        self.took(count);
        if count < asked {
            self.go_on_later()?;
        }
        Ok(count == asked)
    }

    /// Appends `length` bytes of the file from `offset` to the queue: false, with nothing appended, when
    /// the file has less.
    pub(crate) fn queue_file(
        &mut self,
        file: RawFd,
        mut offset: u64,
        length: usize,
    ) -> io::Result<bool> {
        let out = self.queue();
        let (begin, end) = (out.len(), out.len() + length);
        out.reserve(length);
        while out.len() < end {
            let want = end - out.len();
            let got = read_at(file, &mut out.spare_capacity_mut()[..want], offset);
            let Ok(count @ 1..) = got else {
                out.truncate(begin);
                return got.map(|_| false);
            };
            // SAFETY: so many bytes behind the end were read into.
            unsafe { out.set_len(out.len() + count) };
            offset += count as u64;
        }
        Ok(true)
    }
}

const SHORT: Fault = Fault::word("sendfile", "the file has become shorter", "truncated");

/// `s:put_file(sent, file, offset, length)`: sends what is queued and the bytes of the file, of which
/// `sent` are gone already. `true` when all is taken by the system; the new `sent` when it would block, or
/// when others have to get their turn, the stream being armed; `nil, message, sent, code` on failure.
pub(crate) unsafe extern "C-unwind" fn put_file(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; nothing that needs `Drop` is alive when Lua may raise.
    unsafe {
        check(state, 1);
        let mut sent = args::integer_in(state, 2, 0, i64::MAX, "sent") as u64;
        let offset = args::integer_in(state, 4, 0, i64::MAX, "offset") as u64;
        let length = args::integer_in(state, 5, 0, i64::MAX, "length") as u64;
        let source = file_lua::source(state, 3, "sendfile");
        let stream = check(state, 1);
        if stream.is_closed() {
            ffi::lua_pushinteger(state, sent as i64);
            return failed(state, b"closed", b"closed");
        }
        let turn = guard(|| {
            if sent == 0 {
                match stream.begin_message() {
                    Ok(true) => {}
                    Ok(false) => return Ok(Ok(Turn::Later)),
                    Err(error) => return Ok(Err(Fault::io("sendfile", &error))),
                }
            }
            Ok(source.and_then(|file| {
                let turn = adopt::borrowed(file, |file| {
                    stream.send_file(file, offset, length, &mut sent)
                });
                turn.and_then(|turn| turn)
                    .map_err(|error| Fault::io("sendfile", &error))
            }))
        });
        let fault = match settle(state, turn) {
            Ok(Turn::Done) => {
                ffi::lua_pushboolean(state, 1);
                return 1;
            }
            Ok(Turn::Later) => {
                ffi::lua_pushinteger(state, sent as i64);
                return 1;
            }
            Ok(Turn::Short) => SHORT,
            Err(fault) => fault,
        };
        ffi::lua_pushinteger(state, sent as i64);
        let message = fault.message();
        failed(state, message.as_bytes(), fault.code().as_bytes())
    }
}

/// `s:queue_file(file, offset, length)`: reads so many bytes (64 MiB at most) of the file behind what is
/// queued. `true`, or `nil, message, code`; then nothing is queued.
pub(crate) unsafe extern "C-unwind" fn queue_file(state: *mut lua_State) -> c_int {
    // SAFETY: as for `put_file`.
    unsafe {
        check(state, 1);
        let offset = args::integer_in(state, 3, 0, i64::MAX, "offset") as u64;
        let length = args::integer_in(state, 4, 0, 1 << 26, "length") as usize;
        let source = file_lua::source(state, 2, "sendfile");
        let stream = check(state, 1);
        if stream.is_closed() {
            return Fault::word("sendfile", "closed", "closed").push(state);
        }
        let queued = guard(|| {
            Ok(source.and_then(|file| {
                let queued = stream.queue_file(file, offset, length);
                queued.map_err(|error| Fault::io("sendfile", &error))
            }))
        });
        match settle(state, queued) {
            Ok(true) => {
                ffi::lua_pushboolean(state, 1);
                1
            }
            Ok(false) => SHORT.push(state),
            Err(fault) => fault.push(state),
        }
    }
}
