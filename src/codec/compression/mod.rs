//! Content codings: gzip, deflate (zlib) and brotli, in pieces, both ways.
//!
//! `encode.rs`: encoders; `decode.rs`: decoders, bounded in what one piece may grow to.

pub(crate) mod decode;
pub(crate) mod encode;
#[cfg(test)]
mod tests;

/// A content coding (RFC 9110 section 8.4.1, RFC 7932 section 13 for `br`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Coding {
    Gzip,
    Deflate,
    Brotli,
}

impl Coding {
    /// The coding of a name as fields spell it, in lower case.
    pub(crate) fn of(name: &[u8]) -> Option<Coding> {
        match name {
            b"gzip" | b"x-gzip" => Some(Coding::Gzip),
            b"deflate" => Some(Coding::Deflate),
            b"br" => Some(Coding::Brotli),
            _ => None,
        }
    }

    /// The lowest and the highest level, and the one that suits bodies made on the fly.
    pub(crate) fn levels(self) -> (u32, u32, u32) {
        match self {
            Coding::Gzip | Coding::Deflate => (1, 9, 5),
            Coding::Brotli => (0, 11, 4),
        }
    }
}
