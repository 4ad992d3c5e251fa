//! `skynet.frames`: messages with a length of two bytes before them. `lualib/skynet/netpack.lua` is the only user.

use crate::codec::frames::{self, Frames, LARGEST, Pushed};
use crate::lua::{Call, Fault, Function, FunctionTable, Maybe, Module, New, Nil, Object, functions, results};

impl Object for Frames {
    const NAME: &'static str = "skynet.frames";
    const METHODS: FunctionTable = functions! { push, pop, forget, clear };
}

results! {
    enum Messages {
        One(Vec<u8>),
        Several(bool),
        Incomplete(Nil),
    }
}

/// `frames.new()`: returns an object for many streams.
fn new(_: &mut Call<'_>) -> Result<New<Frames>, Fault> {
    Ok(New::of(Frames::default()))
}

/// `frames.frame(message)`: returns the message with its length before it.
fn frame(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    let message = call.bytes(1)?;
    frames::framed(message).ok_or_else(|| {
        Fault::argument(1, format_args!("the message has {} bytes; at most {LARGEST} are possible", message.len()))
    })
}

/// `frames:push(stream, bytes)`: adds bytes that a stream has received. Returns the message that they complete; true if
/// they complete several messages, which `pop` returns; nil if they complete none.
fn push(call: &mut Call<'_>) -> Result<Messages, Fault> {
    let (frames, stack) = call.object_and_stack::<Frames>(1)?;
    Ok(match frames.push(stack.integer(2)?, stack.bytes(3)?) {
        Pushed::One(message) => Messages::One(message),
        Pushed::Several => Messages::Several(true),
        Pushed::Incomplete => Messages::Incomplete(Nil),
    })
}

/// `frames:pop()`: returns the stream of the next queued message, and the message; nothing if none is queued.
fn pop(call: &mut Call<'_>) -> Result<Maybe<(i64, Vec<u8>)>, Fault> {
    Ok(Maybe(call.object_mut::<Frames>(1)?.pop()))
}

/// `frames:forget(stream)`: drops the incomplete message of a stream.
fn forget(call: &mut Call<'_>) -> Result<(), Fault> {
    let (frames, stack) = call.object_and_stack::<Frames>(1)?;
    frames.forget(stack.integer(2)?);
    Ok(())
}

/// `frames:clear()`: drops everything.
fn clear(call: &mut Call<'_>) -> Result<(), Fault> {
    call.object_mut::<Frames>(1)?.clear();
    Ok(())
}

/// Opens `skynet.frames`.
pub(crate) const OPEN: Function = Function::new(|_: &mut Call<'_>| Ok(Module(functions! { new, frame })));
