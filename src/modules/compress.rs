//! `lio.compress`: encoders and decoders of content codings. Each call does its work immediately; no call waits.

use crate::codec::compression::Coding;
use crate::codec::compression::decode::{DecodeError, Decoder};
use crate::codec::compression::encode::Encoder;
use crate::lua::{Call, Failure, Fault, Function, FunctionTable, Module, New, Object, Stack, functions};
use std::io;

/// The default limit on the output of one write to a decoder: 16 MiB.
const DEFAULT_LIMIT: usize = 16 << 20;

impl Object for Encoder {
    const NAME: &'static str = "lio.compress.encoder";
    const METHODS: FunctionTable = functions! {
        write = encoder_write, flush = encoder_flush, finish = encoder_finish,
    };
}

impl Object for Decoder {
    const NAME: &'static str = "lio.compress.decoder";
    const METHODS: FunctionTable = functions! {
        write = decoder_write, flush = decoder_flush, feed = decoder_feed, step = decoder_step, finish = decoder_finish,
    };
}

/// Returns the coding that argument 1 names.
fn coding(call: &Call<'_>) -> Result<Coding, Fault> {
    Coding::of(call.bytes(1)?).ok_or_else(|| Fault::argument(1, "coding must be 'gzip', 'deflate' or 'br'"))
}

/// `compress.encoder(coding [, level])`: returns an encoder. `coding` is `"gzip"`, `"deflate"` or `"br"`. `level` is 1
/// to 9 (0 to 11 for `"br"`).
fn encoder(call: &mut Call<'_>) -> Result<New<Encoder>, Fault> {
    let coding = coding(call)?;
    let (low, high, usual) = coding.levels();
    let level = if call.is_none(2) { usual } else { call.integer_in(2, low.into()..=high.into(), "level")? as u32 };
    Ok(New::of(Encoder::new(coding, level)))
}

/// `compress.decoder(coding [, limit])`: returns a decoder. One call to `write` returns at most `limit` bytes, by
/// default 16 MiB.
fn decoder(call: &mut Call<'_>) -> Result<New<Decoder>, Fault> {
    let coding = coding(call)?;
    let limit = call.optional(2, |call, at| call.integer_in(at, 1..=i64::MAX / 2, "limit"))?;
    let limit = limit.map_or(DEFAULT_LIMIT, |limit| limit as usize);
    Ok(New::of(Decoder::new(coding, limit)))
}

/// Returns the bytes at argument 2; an empty slice if the argument is absent.
fn optional(stack: &Stack) -> Result<&[u8], Fault> {
    Ok(stack.optional(2, Stack::bytes)?.unwrap_or_default())
}

/// Calls `act` with the encoder at argument 1, and returns the encoder's output.
fn encode(
    call: &mut Call<'_>, act: impl FnOnce(&mut Encoder, &Stack) -> Result<io::Result<()>, Fault>,
) -> Result<Vec<u8>, Fault> {
    let (encoder, stack) = call.object_and_stack::<Encoder>(1)?;
    if encoder.is_done() {
        return Err(Fault::message("the encoder is finished"));
    }
    // Writing to a vector fails only if the encoder itself has a defect.
    act(encoder, stack)?.map_err(|_| Fault::message("the encoder failed"))?;
    Ok(std::mem::take(encoder.output()))
}

/// `encoder:write(bytes)`: encodes `bytes` and returns the output that is available, often `""`.
fn encoder_write(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    encode(call, |encoder, stack| Ok(encoder.write(stack.bytes(2)?)))
}

/// `encoder:flush([bytes])`: encodes `bytes` and returns all output that is needed to decode the bytes that have been
/// written so far.
fn encoder_flush(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    encode(call, |encoder, stack| {
        let written = encoder.write(optional(stack)?);
        Ok(written.and_then(|()| encoder.flush()))
    })
}

/// `encoder:finish([bytes])`: encodes `bytes` and returns the rest of the output. The encoder cannot be used
/// afterwards.
fn encoder_finish(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    encode(call, |encoder, stack| {
        let written = encoder.write(optional(stack)?);
        Ok(written.and_then(|()| encoder.finish()))
    })
}

/// Calls `act` with the decoder at argument 1, and returns its result and the decoder's output.
fn decode<T>(
    call: &mut Call<'_>, name: &'static str,
    act: impl FnOnce(&mut Decoder, &Stack) -> Result<Result<T, DecodeError>, Fault>,
) -> Result<(T, Vec<u8>), Fault> {
    let (decoder, stack) = call.object_and_stack::<Decoder>(1)?;
    if decoder.is_done() {
        return Err(Fault::message("the decoder is finished"));
    }
    let (message, code) = match act(decoder, stack)? {
        Ok(result) => return Ok((result, std::mem::take(decoder.output()))),
        Err(DecodeError::Corrupt) => ("the data is invalid in its coding", "corrupt"),
        Err(DecodeError::Truncated) => ("the data ends too early", "truncated"),
        Err(DecodeError::TooLong) => ("the decoded data exceeds the limit", "too long"),
    };
    Err(Failure::new(name, message, code).into())
}

/// `decoder:write(bytes)`: returns the decoded bytes. If the data is malformed or the output exceeds the limit, this
/// and each later call with bytes return nil, a message and `"corrupt"` or `"too long"`.
fn decoder_write(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    Ok(decode(call, "write", |decoder, stack| Ok(decoder.write(stack.bytes(2)?)))?.1)
}

/// `decoder:feed(bytes)`: keeps bytes for `step`.
fn decoder_feed(call: &mut Call<'_>) -> Result<(), Fault> {
    let (decoder, stack) = call.object_and_stack::<Decoder>(1)?;
    if decoder.is_done() {
        return Err(Fault::message("the decoder is finished"));
    }
    decoder.feed(stack.bytes(2)?);
    Ok(())
}

/// `decoder:step()`: decodes at most 4 KiB of the bytes that have been fed, to less than 256 KiB, and returns the decoded
/// bytes, often `""`. Returns nil if nothing is left to decode; on failure the same as `write`.
fn decoder_step(call: &mut Call<'_>) -> Result<Option<Vec<u8>>, Fault> {
    let (has_worked, out) = decode(call, "step", |decoder, _| Ok(decoder.step()))?;
    Ok(has_worked.then_some(out))
}

/// `decoder:flush()`: decodes what has been fed. Otherwise returns `""`, since decoders never hold output back.
fn decoder_flush(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    Ok(decode(call, "flush", |decoder, _| Ok(decoder.write(&[])))?.1)
}

/// `decoder:finish([bytes])`: returns the decoded `bytes`. On failure, returns nil, a message and a code: a code of
/// `write`, or `"truncated"` if the end of the data is missing.
fn decoder_finish(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    let finished = decode(call, "finish", |decoder, stack| {
        let written = decoder.write(optional(stack)?);
        Ok(written.and_then(|()| decoder.finish()))
    });
    Ok(finished?.1)
}

/// Opens `lio.compress`.
pub(crate) const OPEN: Function = Function::new(|_: &mut Call<'_>| Ok(Module(functions! { encoder, decoder })));
