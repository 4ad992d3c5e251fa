//! The target `compression` of the fuzzers.

use super::Coding;
use super::decode::{DecodeError, Decoder, STEP_OUTPUT};
use super::encode::Encoder;
use crate::codec::fuzz_input::{Input, pieces};
use std::io::Read;

/// The maximum number of bytes of all output of one input.
const MOST: usize = 1 << 20;

/// Decodes a body that arrives in these pieces, with a limit for each piece.
fn decoded(coding: Coding, pieces: &[&[u8]], limit: usize) -> Result<Vec<u8>, DecodeError> {
    let (mut decoder, mut all) = (Decoder::new(coding, limit), Vec::new());
    for piece in pieces {
        if let Err(failure) = decoder.write(piece) {
            assert!(decoder.output().is_empty());
            assert_eq!(decoder.write(b"x"), Err(failure), "a failure is final");
            assert_eq!(decoder.finish(), Err(failure), "a failure is final");
            return Err(failure);
        }
        let out = decoder.output();
        assert!(out.len() <= limit, "{} bytes with a limit of {limit}", out.len());
        all.append(out);
    }
    let finished = decoder.finish();
    assert!(decoder.is_done() && decoder.output().len() <= limit);
    all.append(decoder.output());
    finished.map(|()| all)
}

/// Decodes a body that is fed in these pieces, in steps. Stops when there are more than [`MOST`] bytes.
fn decoded_in_steps(coding: Coding, pieces: &[&[u8]]) -> Result<Vec<u8>, DecodeError> {
    let (mut decoder, mut all) = (Decoder::new(coding, MOST), Vec::new());
    for piece in pieces {
        decoder.feed(piece);
        while decoder.step()? {
            let out = decoder.output();
            assert!(out.len() < 4 * STEP_OUTPUT, "a step output {} bytes", out.len());
            all.append(out);
            if all.len() > MOST {
                return Err(DecodeError::TooLong);
            }
        }
        assert_eq!(decoder.step(), Ok(false));
    }
    let finished = decoder.finish();
    assert_eq!(decoder.output().len(), 0, "the last step has output everything");
    finished.map(|()| all)
}

/// Decodes with readers of the libraries; `None` if they fail, leave bytes, or output more than [`MOST`] bytes.
fn decoded_by_reader(coding: Coding, mut bytes: &[u8]) -> Option<Vec<u8>> {
    fn read(reader: &mut dyn Read, out: &mut Vec<u8>) -> Option<()> {
        let room = MOST as u64 + 1 - out.len() as u64;
        reader.take(room).read_to_end(out).ok()?;
        (out.len() <= MOST).then_some(())
    }
    let mut out = Vec::new();
    match coding {
        Coding::Gzip => {
            while !bytes.is_empty() {
                read(&mut flate2::bufread::GzDecoder::new(&mut bytes), &mut out)?;
            }
        }
        Coding::Deflate => {
            let is_zlib = bytes.len() > 1
                && bytes[0] & 15 == 8
                && (usize::from(bytes[0]) * 256 + usize::from(bytes[1])) % 31 == 0;
            match is_zlib {
                true => read(&mut flate2::bufread::ZlibDecoder::new(&mut bytes), &mut out)?,
                false => read(&mut flate2::bufread::DeflateDecoder::new(&mut bytes), &mut out)?,
            }
        }
        // The reader allows windows of 1 GiB, which RFC 7932 section 9.1 does not allow.
        Coding::Brotli if bytes.first().is_some_and(|&head| head & 0x7f == 0x11) => return None,
        Coding::Brotli => {
            // With a larger buffer, the reader takes bytes after the end.
            read(&mut brotli::Decompressor::new(&mut bytes, 1), &mut out)?;
        }
    }
    bytes.is_empty().then_some(out)
}

/// Decodes the rest of the input, or encodes and decodes it. The input: coding and direction, level or limit, sizes of
/// pieces, data.
pub(crate) fn compression(data: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut input = Input(data);
    let flags = input.byte();
    let coding = [Coding::Gzip, Coding::Deflate, Coding::Brotli][usize::from(flags % 3)];
    match flags & 128 {
        0 => decode(coding, input),
        _ => round_trip(coding, input),
    }
}

/// Decodes the rest of the input. The result must not depend on the pieces, except for the limit.
fn decode(coding: Coding, mut input: Input<'_>) -> Result<Vec<u8>, DecodeError> {
    let limit = 1 + input.short();
    let sizes = input.sizes();
    let (bytes, parts) = (input.0, pieces(input.0, &sizes));
    let whole = decoded(coding, &[bytes], MOST);
    for parts in [&parts, &pieces(bytes, &[1])] {
        let found = decoded(coding, parts, MOST);
        match whole {
            // The limit is for each piece.
            Err(DecodeError::TooLong) => assert!(found.is_err() || found.is_ok_and(|data| data.len() > MOST)),
            _ => assert!(found == whole, "{whole:?} differs from {found:?} in {} pieces", parts.len()),
        }
        let stepped = decoded_in_steps(coding, parts);
        assert!(stepped == whole || stepped == Err(DecodeError::TooLong) || whole == Err(DecodeError::TooLong));
        let limited = decoded(coding, parts, limit);
        assert!(limited == whole || limited == Err(DecodeError::TooLong) || whole == Err(DecodeError::TooLong));
    }
    if whole != Err(DecodeError::TooLong) && !bytes.is_empty() {
        assert!(decoded_by_reader(coding, bytes) == whole.clone().ok(), "{coding:?}: readers agree on {whole:?}");
    }
    whole
}

/// Encodes data that the rest of the input describes, with flushes, and decodes it.
fn round_trip(coding: Coding, mut input: Input<'_>) -> Result<Vec<u8>, DecodeError> {
    let (least, most, _) = coding.levels();
    let level = match (coding, least + u32::from(input.byte()) % (most - least + 1)) {
        // A table of this level has 32 MiB, which the fuzzer reports.
        (Coding::Brotli, 9) => 8,
        (_, level) => level,
    };
    let flushes = input.byte();
    let sizes = input.sizes();
    // Encoding is slow with the checks of the fuzzer's build, in particular with high levels.
    let most = if level > 6 { 4000 } else { 30_000 };
    let (mut data, mut encoder) = (Vec::new(), Encoder::new(coding, level));
    let mut decoder = Decoder::new(coding, MOST);
    let (mut encoded, mut decoded_data) = (Vec::new(), Vec::new());
    let mut writes = 0;
    while !input.0.is_empty() && data.len() < most {
        writes += 1;
        let (length, count) = (usize::from(input.byte()), input.short() % 300);
        let mut piece = input.bytes(length).repeat(count + 1);
        piece.truncate(most);
        assert!(encoder.write(&piece).is_ok());
        data.extend_from_slice(&piece);
        let is_flush = count % 8 == usize::from(flushes % 8);
        if is_flush {
            assert!(encoder.flush().is_ok());
        }
        let out = std::mem::take(encoder.output());
        for part in pieces(&out, &sizes) {
            assert_eq!(decoder.write(part), Ok(()), "{coding:?}, level {level}");
            decoded_data.append(decoder.output());
        }
        encoded.extend_from_slice(&out);
        let is_prefix = data.starts_with(&decoded_data);
        assert!(is_prefix && (!is_flush || decoded_data == data), "a peer can decode what was flushed");
    }
    assert!(encoder.finish().is_ok() && encoder.is_done());
    encoded.append(encoder.output());
    // Incompressible data grows by less than this; each flush also takes bytes.
    assert!(encoded.len() <= data.len() + data.len() / 8 + 16 * writes + 64, "{} bytes", encoded.len());
    let again = decoded(coding, &pieces(&encoded, &sizes), MOST);
    assert!(again.as_ref() == Ok(&data), "{coding:?}, level {level}: the data differs");
    again
}

/// Returns seeds of [`compression`].
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let encoded = |coding: Coding, data: &[u8]| {
        let mut encoder = Encoder::new(coding, 5);
        let written = encoder.write(data).and_then(|()| encoder.finish());
        assert!(written.is_ok(), "encoding into a vector cannot fail");
        std::mem::take(encoder.output())
    };
    let decode = |flags: u8, limit: u16, sizes: &[u8], bytes: &[u8]| {
        [&[flags][..], &limit.to_be_bytes(), &[sizes.len() as u8], sizes, bytes].concat()
    };
    let text = b"Hello, Hello, Hello, Hello";
    let gzip = encoded(Coding::Gzip, text);
    let zlib = encoded(Coding::Deflate, text);
    let zeros = encoded(Coding::Gzip, &[0; 5000]);
    // A header with a name, a comment and extra bytes.
    let named = [b"\x1f\x8b\x08\x1c\0\0\0\0\0\x03\x02\0xyname\0comment\0", &gzip[10..]].concat();
    let wrong_sum = [&gzip[..gzip.len() - 5], b"\0\0\0\0\0"].concat();
    vec![
        decode(0, 1000, &[3], &gzip),
        decode(0, 1000, &[7, 1], &[&gzip[..], &gzip, &encoded(Coding::Gzip, b"")].concat()),
        decode(0, 1000, &[], &named),
        decode(0, 1000, &[], &wrong_sum),
        decode(0, 1000, &[], &[&gzip[..], b"x"].concat()),
        decode(0, 10, &[20], &zeros),
        decode(1, 1000, &[1], &zlib),
        decode(1, 1000, &[1], &zlib[2..zlib.len() - 4]),
        decode(1, 1000, &[5], &zlib[..zlib.len() - 6]),
        decode(2, 1000, &[2], &encoded(Coding::Brotli, text)),
        decode(2, 1000, &[2], &encoded(Coding::Brotli, &b"0123456789abc".repeat(900))),
        decode(2, 1000, &[], b"\x0b\x02\x80Hello\x03x"),
        decode(2, 1000, &[], b"\xff\xff\xff"),
        // A window of 2^25 bytes.
        decode(2, 1000, &[], b"\x11\x19\x40\x21\0\0\0\0\0\0\0\x2a\xf9\x41\0\x01"),
        [&[128 | 1, 4, 0, 1, 9, 3, 0, 2][..], b"abc", &[4, 0, 8], b"defg"].concat(),
        [&[128, 8, 0, 0, 5, 1, 0][..], b"12345", &[200, 0, 0], &(0..200).collect::<Vec<u8>>()].concat(),
        [&[128 | 3, 11, 1, 1, 7, 2, 0, 1][..], b"ab"].concat(),
        // More than the buffer of a decoder, flushed.
        [&[128 | 3, 1, 0, 0, 200, 0, 96][..], &[b'x'; 200]].concat(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_reach_every_coding_and_failure() {
        let shown = |found: Result<Vec<u8>, DecodeError>| match found {
            Ok(data) => data.len().to_string(),
            Err(failure) => format!("{failure:?}"),
        };
        let all: Vec<_> = seeds().iter().map(|seed| shown(compression(seed))).collect();
        let expected = [
            "26",
            "52",
            "26",
            "Corrupt",
            "Corrupt",
            "5000",
            "26",
            "26",
            "Truncated",
            "26",
            "11700",
            "Corrupt",
            "Corrupt",
            "Corrupt",
            "45",
            "1485",
            "4",
            "19400",
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn inputs_of_any_length_are_valid() {
        for length in 0..40 {
            for first in [0, 1, 2, 0x1f, 0x80, 0x81, 0x82] {
                let _ = compression(&vec![first; length]);
            }
        }
    }
}
