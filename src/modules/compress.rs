//! `lio.compress`: encoders and decoders of content codings. Each call does its work at once; nothing
//! here waits.

use crate::codec::compression::Coding;
use crate::codec::compression::decode::{self, Decoder};
use crate::codec::compression::encode::Encoder;
use crate::lua::{Call, Failure, Fault, Function, FunctionTable, Module, New, Object, Stack, functions};
use std::io;

/// What one write to a decoder may let out unless the caller says otherwise: 16 MiB.
const LIMIT: usize = 16 << 20;

impl Object for Encoder {
    const NAME: &'static str = "lio.compress.encoder";
    const METHODS: FunctionTable = functions! {
        write = encoder_write, flush = encoder_flush, finish = encoder_finish,
    };
}

impl Object for Decoder {
    const NAME: &'static str = "lio.compress.decoder";
    const METHODS: FunctionTable = functions! {
        write = decoder_write, flush = decoder_flush, finish = decoder_finish,
    };
}

/// Argument 1, the name of a coding.
fn coding(call: &Call<'_>) -> Result<Coding, Fault> {
    Coding::of(call.bytes(1)?).ok_or_else(|| Fault::argument(1, "coding must be 'gzip', 'deflate' or 'br'"))
}

/// `compress.encoder(coding [, level])` → an encoder. `coding`: `"gzip"`, `"deflate"` or `"br"`; `level`:
/// 1 to 9, of `"br"` 0 to 11.
fn encoder(call: &mut Call<'_>) -> Result<New<Encoder>, Fault> {
    let coding = coding(call)?;
    let (low, high, usual) = coding.levels();
    let level = if call.is_none(2) { usual } else { call.integer_in(2, low.into()..=high.into(), "level")? as u32 };
    Ok(New::of(Encoder::new(coding, level)))
}

/// `compress.decoder(coding [, limit])` → a decoder; one call of `write` lets out at most `limit` bytes,
/// 16 MiB when absent.
fn decoder(call: &mut Call<'_>) -> Result<New<Decoder>, Fault> {
    let coding = coding(call)?;
    let limit = call.optional(2, |call, at| call.integer_in(at, 1..=i64::MAX / 2, "limit"))?;
    let limit = limit.map_or(LIMIT, |limit| limit as usize);
    Ok(New::of(Decoder::new(coding, limit)))
}

/// The bytes at argument 2, or none.
fn optional(stack: &Stack) -> Result<&[u8], Fault> {
    Ok(stack.optional(2, Stack::bytes)?.unwrap_or_default())
}

/// Lets the encoder at argument 1 do something, and takes what comes out.
fn encode(
    call: &mut Call<'_>, act: impl FnOnce(&mut Encoder, &Stack) -> Result<io::Result<()>, Fault>,
) -> Result<Vec<u8>, Fault> {
    let (encoder, stack) = call.split::<Encoder>(1)?;
    if encoder.is_done() {
        return Err(Fault::message("the encoder is finished"));
    }
    // Writing to a vector fails for no reason but a coder's own fault.
    act(encoder, stack)?.map_err(|_| Fault::message("the encoder failed"))?;
    Ok(std::mem::take(encoder.output()))
}

/// `encoder:write(bytes)` → what can go out already, often `""`.
fn encoder_write(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    encode(call, |encoder, stack| Ok(encoder.write(stack.bytes(2)?)))
}

/// `encoder:flush([bytes])` → all that is needed to decode what was written so far, `bytes` as well.
fn encoder_flush(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    encode(call, |encoder, stack| {
        let written = encoder.write(optional(stack)?);
        Ok(written.and_then(|()| encoder.flush()))
    })
}

/// `encoder:finish([bytes])` → the rest, after `bytes`; the encoder is of no use then.
fn encoder_finish(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    encode(call, |encoder, stack| {
        let written = encoder.write(optional(stack)?);
        Ok(written.and_then(|()| encoder.finish()))
    })
}

/// As [`encode`], for the decoder at argument 1.
fn decode(
    call: &mut Call<'_>, name: &'static str,
    act: impl FnOnce(&mut Decoder, &Stack) -> Result<Result<(), decode::Failure>, Fault>,
) -> Result<Vec<u8>, Fault> {
    let (decoder, stack) = call.split::<Decoder>(1)?;
    if decoder.is_done() {
        return Err(Fault::message("the decoder is finished"));
    }
    let (message, code) = match act(decoder, stack)? {
        Ok(()) => return Ok(std::mem::take(decoder.output())),
        Err(decode::Failure::Corrupt) => ("the data is not what its coding allows", "corrupt"),
        Err(decode::Failure::Truncated) => ("the data ends too early", "truncated"),
        Err(decode::Failure::TooLong) => ("the decoded data is over the limit", "too long"),
    };
    Err(Failure::word(name, message, code).into())
}

/// `decoder:write(bytes)` → what they decode to; nil, message, code (`"corrupt"`, `"too long"`) when they
/// cannot be, now and in every later call.
fn decoder_write(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    decode(call, "write", |decoder, stack| Ok(decoder.write(stack.bytes(2)?)))
}

/// `decoder:flush()` → `""`: decoders hold nothing back.
fn decoder_flush(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    decode(call, "flush", |decoder, _| Ok(decoder.write(&[])))
}

/// `decoder:finish([bytes])` → what `bytes` decode to; nil, message, code as `write`, and `"truncated"`
/// when the end is missing.
fn decoder_finish(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    decode(call, "finish", |decoder, stack| {
        let written = decoder.write(optional(stack)?);
        Ok(written.and_then(|()| decoder.finish()))
    })
}

/// Opens `lio.compress`.
pub(crate) const OPEN: Function = Function::new(|_: &mut Call<'_>| Ok(Module(functions! { encoder, decoder })));
