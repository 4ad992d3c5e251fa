//! Heads of frames (RFC 6455 section 5.2). The reader decodes them, the writer encodes them.
//!
//! Invariant: a decoded head has the shortest form of its length, and a control frame is final and has at most 125
//! bytes. The reader checks what depends on the connection: mask, RSV bits and the order of fragments.

use super::close::MAX_CONTROL;
use super::mask::Key;
use super::{Kind, Refusal};

/// The maximum size of a head, in bytes.
pub(crate) const MAX_HEAD: usize = 14;

const FIN: u8 = 0x80;
const RSV: u8 = 0x70;
/// RSV1: the message is compressed (RFC 7692 section 6).
const COMPRESSED: u8 = 0x40;
const MASKED: u8 = 0x80;
/// The length codes of lengths with 2 and 8 bytes.
const LENGTH_16: u8 = 126;
const LENGTH_64: u8 = 127;

/// The type of a frame (RFC 6455 section 11.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Opcode {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

impl Opcode {
    fn of(number: u8) -> Option<Opcode> {
        Some(match number {
            0 => Opcode::Continuation,
            1 => Opcode::Text,
            2 => Opcode::Binary,
            8 => Opcode::Close,
            9 => Opcode::Ping,
            10 => Opcode::Pong,
            _ => return None,
        })
    }

    fn number(self) -> u8 {
        match self {
            Opcode::Continuation => 0,
            Opcode::Text => 1,
            Opcode::Binary => 2,
            Opcode::Close => 8,
            Opcode::Ping => 9,
            Opcode::Pong => 10,
        }
    }

    /// Whether the frame may be between the fragments of a message.
    pub(crate) fn is_control(self) -> bool {
        matches!(self, Opcode::Close | Opcode::Ping | Opcode::Pong)
    }
}

impl From<Kind> for Opcode {
    fn from(kind: Kind) -> Opcode {
        match kind {
            Kind::Text => Opcode::Text,
            Kind::Binary => Opcode::Binary,
        }
    }
}

/// The head of one frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    /// Whether the frame is the last one of its message.
    pub(crate) is_final: bool,
    /// Whether RSV1 is set: the frame starts a compressed message.
    pub(crate) is_compressed: bool,
    pub(crate) opcode: Opcode,
    /// The masking key; `None` if the payload is not masked.
    pub(crate) key: Option<Key>,
    /// The number of bytes of the payload, below 2⁶³.
    pub(crate) length: u64,
}

/// An encoded head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadBytes {
    bytes: [u8; MAX_HEAD],
    length: u8,
}

impl HeadBytes {
    /// The bytes to send before the payload.
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    fn push(&mut self, bytes: &[u8]) {
        let start = usize::from(self.length);
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len() as u8;
    }
}

impl Head {
    /// Decodes the head at the start of `bytes`. Returns the head and its size in bytes; `None` if it is incomplete and
    /// valid so far.
    ///
    /// # Errors
    /// 1002 for RSV2 or RSV3, a reserved opcode, a fragmented or long control frame, a length that is not in its
    /// shortest form, or a length of 2⁶³ and more.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<(Head, usize)>, Refusal> {
        let Some(&first) = bytes.first() else { return Ok(None) };
        let opcode = check_first(first)?;
        let Some(&second) = bytes.get(1) else { return Ok(None) };
        let code = second & !MASKED;
        if opcode.is_control() && usize::from(code) > MAX_CONTROL {
            return Err(Refusal::protocol("control frame with more than 125 bytes"));
        }
        let rest = &bytes[2..];
        let Some((length, rest)) = decode_length(code, rest)? else { return Ok(None) };
        let (key, rest) = match second & MASKED {
            0 => (None, rest),
            _ => match rest.split_first_chunk::<4>() {
                Some((key, rest)) => (Some(*key), rest),
                None => return Ok(None),
            },
        };
        let (is_final, is_compressed) = (first & FIN != 0, first & COMPRESSED != 0);
        Ok(Some((Head { is_final, is_compressed, opcode, key, length }, bytes.len() - rest.len())))
    }

    /// Encodes the head, with the shortest form of the length.
    pub(crate) fn encode(&self) -> HeadBytes {
        let mut head = HeadBytes { bytes: [0; MAX_HEAD], length: 0 };
        let flags = if self.is_final { FIN } else { 0 } | if self.is_compressed { COMPRESSED } else { 0 };
        let masked = if self.key.is_some() { MASKED } else { 0 };
        let first = flags | self.opcode.number();
        match self.length {
            0..=125 => head.push(&[first, masked | self.length as u8]),
            126..=0xffff => {
                head.push(&[first, masked | LENGTH_16]);
                head.push(&(self.length as u16).to_be_bytes());
            }
            _ => {
                head.push(&[first, masked | LENGTH_64]);
                head.push(&self.length.to_be_bytes());
            }
        }
        if let Some(key) = self.key {
            head.push(&key);
        }
        head
    }
}

/// Checks the first byte of a head, without RSV1.
fn check_first(first: u8) -> Result<Opcode, Refusal> {
    if first & RSV & !COMPRESSED != 0 {
        return Err(Refusal::protocol("frame with RSV2 or RSV3"));
    }
    let opcode = Opcode::of(first & 0x0f).ok_or(Refusal::protocol("frame with a reserved opcode"))?;
    match opcode.is_control() && first & FIN == 0 {
        true => Err(Refusal::protocol("fragmented control frame")),
        false => Ok(opcode),
    }
}

/// Decodes the length whose code is `code`. Returns it and the bytes after it.
fn decode_length(code: u8, rest: &[u8]) -> Result<Option<(u64, &[u8])>, Refusal> {
    let (length, rest, shortest) = match code {
        LENGTH_16 => match rest.split_first_chunk::<2>() {
            Some((length, rest)) => (u16::from_be_bytes(*length).into(), rest, LENGTH_16.into()),
            None => return Ok(None),
        },
        LENGTH_64 => match rest.split_first_chunk::<8>() {
            Some((length, rest)) => (u64::from_be_bytes(*length), rest, 0x1_0000),
            None => return Ok(None),
        },
        _ => (code.into(), rest, 0),
    };
    if length >> 63 != 0 {
        return Err(Refusal::protocol("frame with a length of 2^63 or more"));
    }
    if length < shortest {
        return Err(Refusal::protocol("frame whose length is not in its shortest form"));
    }
    Ok(Some((length, rest)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refusal(bytes: &[u8]) -> &'static str {
        Head::decode(bytes).expect_err("a refusal").text
    }

    #[test]
    fn lengths_have_one_form_each() {
        for (length, expected) in [
            (0, &[0x82, 0][..]),
            (125, &[0x82, 125]),
            (126, &[0x82, 126, 0, 126]),
            (0xffff, &[0x82, 126, 0xff, 0xff]),
            (0x1_0000, &[0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
            (u64::MAX >> 1, &[0x82, 127, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ] {
            let head = Head { is_final: true, is_compressed: false, opcode: Opcode::Binary, key: None, length };
            assert_eq!(head.encode().as_slice(), expected);
            assert_eq!(Head::decode(expected), Ok(Some((head, expected.len()))));
        }
    }

    #[test]
    fn longer_forms_of_lengths_are_refused() {
        let text = "frame whose length is not in its shortest form";
        assert_eq!(refusal(&[0x82, 126, 0, 125]), text);
        assert_eq!(refusal(&[0x82, 127, 0, 0, 0, 0, 0, 0, 0xff, 0xff]), text);
        assert_eq!(refusal(&[0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0]), "frame with a length of 2^63 or more");
    }

    #[test]
    fn first_bytes_are_checked_before_the_rest_arrives() {
        for first in 0..=u8::MAX {
            let is_valid =
                first & 0x30 == 0 && (matches!(first & 15, 0..=2) || matches!(first & 15, 8..=10) && first & FIN != 0);
            assert_eq!(Head::decode(&[first]).is_ok(), is_valid, "{first:#x}");
        }
    }

    #[test]
    fn control_frames_are_short() {
        assert_eq!(refusal(&[0x89, 126]), "control frame with more than 125 bytes");
        assert_eq!(refusal(&[0x88, 0xff]), "control frame with more than 125 bytes");
        assert_eq!(refusal(&[0x09]), "fragmented control frame");
        assert!(Head::decode(&[0x8a, 125]).is_ok());
    }

    proptest! {
        #[test]
        fn an_encoded_head_is_decoded_when_its_last_byte_arrives(
            is_final: bool, is_compressed: bool, number in 0u8..3, key: Option<Key>, length in 0u64..1 << 63,
            shift in 0u32..63,
        ) {
            let (opcode, length) = (Opcode::of(number).unwrap(), length >> shift);
            let head = Head { is_final, is_compressed, opcode, key, length };
            let encoded = head.encode();
            let bytes = encoded.as_slice();
            for end in 0..bytes.len() {
                prop_assert_eq!(Head::decode(&bytes[..end]), Ok(None));
            }
            prop_assert_eq!(Head::decode(bytes), Ok(Some((head, bytes.len()))));
        }

        #[test]
        fn a_decoded_head_is_encoded_to_the_same_bytes(bytes in prop::collection::vec(any::<u8>(), 0..16)) {
            if let Ok(Some((head, size))) = Head::decode(&bytes) {
                let encoded = head.encode();
                prop_assert_eq!(encoded.as_slice(), &bytes[..size]);
            }
        }
    }
}
