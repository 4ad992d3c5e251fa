//! `lio.compress`: encoders and decoders of content codings. Each call does its work at once; nothing
//! here waits.

use crate::codec::compression::Coding;
use crate::codec::compression::decode::{Decoder, Failure};
use crate::codec::compression::encode::Encoder;
use crate::raw::object::{self, Object};
use crate::raw::{
    Fault, Function, Text, args, functions, guard, may_be_finalizer, module, push_bytes, raise,
    settle,
};
use mlua::ffi::lua_State;
use std::convert::Infallible;
use std::ffi::CStr;
use std::os::raw::c_int;

/// What one write to a decoder may let out unless the caller says otherwise: 16 MiB.
const LIMIT: i64 = 16 << 20;
/// An output buffer up to this size is kept for the next piece.
const KEEP: usize = 64 * 1024;

impl Object for Held<Encoder> {
    const NAME: &'static CStr = c"lio.compress.encoder";
    const METHODS: &'static [(&'static CStr, Function)] = functions![
        (c"write", encoder_write),
        (c"flush", encoder_flush),
        (c"finish", encoder_finish),
    ];
}

impl Object for Held<Decoder> {
    const NAME: &'static CStr = c"lio.compress.decoder";
    const METHODS: &'static [(&'static CStr, Function)] = functions![
        (c"write", decoder_write),
        (c"flush", decoder_flush),
        (c"finish", decoder_finish),
    ];
}

/// Argument 1, the name of a coding.
unsafe fn coding(state: *mut lua_State) -> Coding {
    // SAFETY: nothing that needs `Drop` is alive.
    unsafe {
        match Coding::of(args::bytes(state, 1)) {
            Some(coding) => coding,
            None => args::argument_error(
                state,
                1,
                Text::new("coding must be 'gzip', 'deflate' or 'br'"),
            ),
        }
    }
}

/// `compress.encoder(coding [, level])` → an encoder. `coding`: `"gzip"`, `"deflate"` or `"br"`; `level`:
/// 1 to 9, of `"br"` 0 to 11.
unsafe extern "C-unwind" fn encoder(state: *mut lua_State) -> c_int {
    // SAFETY: a thin shell; the encoder is owned by Lua before anything can raise.
    unsafe {
        let coding = coding(state);
        let (low, high, usual) = coding.levels();
        let level = match args::is_none(state, 2) {
            true => usual,
            false => args::integer_in(state, 2, low.into(), high.into(), "level") as u32,
        };
        let coder = || Encoder::new(coding, level);
        let Ok(_) = object::push_new(state, || {
            Ok::<_, Infallible>(Held {
                coder: coder(),
                busy: false,
            })
        });
        1
    }
}

/// `compress.decoder(coding [, limit])` → a decoder; one call of `write` lets out at most `limit` bytes,
/// 16 MiB when absent.
unsafe extern "C-unwind" fn decoder(state: *mut lua_State) -> c_int {
    // SAFETY: as for `encoder`.
    unsafe {
        let coding = coding(state);
        let limit = match args::is_none(state, 2) {
            true => LIMIT,
            false => args::integer_in(state, 2, 1, i64::MAX / 2, "limit"),
        };
        let coder = || Decoder::new(coding, limit as usize);
        let Ok(_) = object::push_new(state, || {
            Ok::<_, Infallible>(Held {
                coder: coder(),
                busy: false,
            })
        });
        1
    }
}

/// A coder as Lua holds it.
struct Held<T> {
    coder: T,
    /// Its output is being handed over.
    busy: bool,
}

/// What encoders and decoders have in common.
trait Coder {
    /// For messages.
    const WHAT: &'static str;
    fn is_done(&self) -> bool;
    /// What came out and was not taken yet.
    fn output(&mut self) -> &mut Vec<u8>;
}

impl Coder for Encoder {
    const WHAT: &'static str = "encoder";
    fn is_done(&self) -> bool {
        Encoder::is_done(self)
    }
    fn output(&mut self) -> &mut Vec<u8> {
        Encoder::output(self)
    }
}

impl Coder for Decoder {
    const WHAT: &'static str = "decoder";
    fn is_done(&self) -> bool {
        Decoder::is_done(self)
    }
    fn output(&mut self) -> &mut Vec<u8> {
        Decoder::output(self)
    }
}

/// The coder at argument 1; raises when it is finished, and to a finalizer in the middle of another call on it.
unsafe fn check<T: Coder>(state: *mut lua_State) -> *mut Held<T>
where
    Held<T>: Object,
{
    // SAFETY: the argument stays on the stack.
    unsafe {
        let held = object::check::<Held<T>>(state, 1);
        let what = T::WHAT;
        if (*held).busy && may_be_finalizer(state) {
            let text = format_args!("the {what} is busy: another call hands its output over");
            raise(state, Text::format(text));
        }
        (*held).busy = false;
        if (*held).coder.is_done() {
            raise(state, Text::format(format_args!("the {what} is finished")));
        }
        held
    }
}

/// Gives the bytes of a coder's output to Lua. A raise for want of memory leaves them where they are.
unsafe fn push_output<T: Coder>(state: *mut lua_State, held: *mut Held<T>) -> c_int
where
    Held<T>: Object,
{
    // SAFETY: the userdata is at argument 1. A finalizer that runs meanwhile cannot use the coder, which is busy, but drop
    // it: so it is looked at anew.
    unsafe {
        (*held).busy = true;
        push_bytes(state, (*held).coder.output());
        if !object::is_alive(held) {
            return 1;
        }
        (*held).busy = false;
        let out = (*held).coder.output();
        match out.capacity() > KEEP {
            true => *out = Vec::new(),
            false => out.clear(),
        }
        1
    }
}

unsafe fn encode(
    state: *mut lua_State,
    act: impl FnOnce(&mut Encoder) -> std::io::Result<()>,
) -> c_int {
    // SAFETY: as for `check`; the error is dropped within the guard.
    unsafe {
        let held = check::<Encoder>(state);
        let encoder = &raw mut (*held).coder;
        // Writing to a vector fails for no reason but a coder's own fault.
        let done = guard(|| act(&mut *encoder).map_err(|_| Text::new("the encoder failed")));
        settle(state, done);
        push_output(state, held)
    }
}

/// `encoder:write(bytes)` → what can go out already, often `""`.
unsafe extern "C-unwind" fn encoder_write(state: *mut lua_State) -> c_int {
    // SAFETY: as for `encode`; the bytes stay on the stack.
    unsafe {
        let data = args::bytes(state, 2);
        encode(state, |encoder| encoder.write(data))
    }
}

/// `encoder:flush([bytes])` → all that is needed to decode what was written so far, `bytes` as well.
unsafe extern "C-unwind" fn encoder_flush(state: *mut lua_State) -> c_int {
    // SAFETY: as for `encoder_write`.
    unsafe {
        let data = optional(state);
        encode(state, |encoder| {
            encoder.write(data)?;
            encoder.flush()
        })
    }
}

/// `encoder:finish([bytes])` → the rest, after `bytes`; the encoder is of no use then.
unsafe extern "C-unwind" fn encoder_finish(state: *mut lua_State) -> c_int {
    // SAFETY: as for `encoder_write`.
    unsafe {
        let data = optional(state);
        encode(state, |encoder| {
            encoder.write(data)?;
            encoder.finish()
        })
    }
}

unsafe fn optional<'a>(state: *mut lua_State) -> &'a [u8] {
    // SAFETY: as for `args::bytes`.
    unsafe {
        match args::is_none(state, 2) {
            true => &[],
            false => args::bytes(state, 2),
        }
    }
}

unsafe fn decode(
    state: *mut lua_State,
    call: &'static str,
    act: impl FnOnce(&mut Decoder) -> Result<(), Failure>,
) -> c_int {
    // SAFETY: as for `encode`.
    unsafe {
        let held = check::<Decoder>(state);
        let decoder = &raw mut (*held).coder;
        match settle(state, guard(|| Ok(act(&mut *decoder)))) {
            Ok(()) => push_output(state, held),
            Err(failure) => fault(call, failure).push(state),
        }
    }
}

fn fault(call: &'static str, failure: Failure) -> Fault {
    match failure {
        Failure::Corrupt => Fault::word(call, "the data is not what its coding allows", "corrupt"),
        Failure::Truncated => Fault::word(call, "the data ends too early", "truncated"),
        Failure::TooLong => Fault::word(call, "the decoded data is over the limit", "too long"),
    }
}

/// `decoder:write(bytes)` → what they decode to; nil, message, code (`"corrupt"`, `"too long"`) when they
/// cannot be, now and in every later call.
unsafe extern "C-unwind" fn decoder_write(state: *mut lua_State) -> c_int {
    // SAFETY: as for `encoder_write`.
    unsafe {
        let data = args::bytes(state, 2);
        decode(state, "write", |decoder| decoder.write(data))
    }
}

/// `decoder:flush()` → `""`: decoders hold nothing back.
unsafe extern "C-unwind" fn decoder_flush(state: *mut lua_State) -> c_int {
    // SAFETY: as for `decode`.
    unsafe { decode(state, "flush", |decoder| decoder.write(&[])) }
}

/// `decoder:finish([bytes])` → what `bytes` decode to; nil, message, code as `write`, and `"truncated"`
/// when the end is missing.
unsafe extern "C-unwind" fn decoder_finish(state: *mut lua_State) -> c_int {
    // SAFETY: as for `encoder_write`.
    unsafe {
        let data = optional(state);
        decode(state, "finish", |decoder| {
            decoder.write(data)?;
            decoder.finish()
        })
    }
}

const FUNCTIONS: &[(&CStr, Function)] = functions![(c"encoder", encoder), (c"decoder", decoder)];

/// Pushes the module's table.
///
/// # Safety
/// Called by Lua's `require`.
pub(crate) unsafe extern "C-unwind" fn open_module(state: *mut lua_State) -> c_int {
    // SAFETY: plain stack work.
    unsafe {
        module::push(state, FUNCTIONS);
        1
    }
}
