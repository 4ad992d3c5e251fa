//! The frame of gzip members (RFC 1952): where a header ends, and what a trailer must say.

use super::decode::Failure;
use flate2::Crc;

/// A header with its name and comment is at most this long, in bytes.
pub(super) const MAX_HEADER: usize = 16 * 1024;
/// Bytes of a trailer.
pub(super) const TRAILER: usize = 8;

const HEADER_CRC: u8 = 2;
const EXTRA: u8 = 4;
const NAME: u8 = 8;
const COMMENT: u8 = 16;
const RESERVED: u8 = 0xe0;

/// How long the header at the start of `bytes` is; `None` while it is not whole.
pub(super) fn header_length(bytes: &[u8]) -> Result<Option<usize>, Failure> {
    let magic = [0x1f, 0x8b, 8];
    let known = bytes.len().min(magic.len());
    if bytes[..known] != magic[..known] {
        return Err(Failure::Corrupt);
    }
    match measure(bytes) {
        Some(_) if bytes[3] & RESERVED != 0 => Err(Failure::Corrupt),
        None if bytes.len() > MAX_HEADER => Err(Failure::Corrupt),
        found => Ok(found),
    }
}

fn measure(bytes: &[u8]) -> Option<usize> {
    let flags = *bytes.get(3)?;
    let mut at = 10;
    if flags & EXTRA != 0 {
        let size = bytes.get(at..at + 2)?;
        at += 2 + usize::from(u16::from_le_bytes([size[0], size[1]]));
    }
    for flag in [NAME, COMMENT] {
        if flags & flag != 0 {
            at += memchr::memchr(0, bytes.get(at..)?)? + 1;
        }
    }
    if flags & HEADER_CRC != 0 {
        at += 2;
    }
    (bytes.len() >= at).then_some(at)
}

/// Whether a trailer fits what was decoded.
pub(super) fn check_trailer(trailer: &[u8; TRAILER], sum: &Crc) -> Result<(), Failure> {
    let [a, b, c, d, e, f, g, h] = *trailer;
    let crc = u32::from_le_bytes([a, b, c, d]);
    let amount = u32::from_le_bytes([e, f, g, h]);
    match crc == sum.sum() && amount == sum.amount() {
        true => Ok(()),
        false => Err(Failure::Corrupt),
    }
}
