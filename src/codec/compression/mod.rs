//! Content codings, encoded and decoded in pieces: gzip, deflate (zlib) and brotli.
//!
//! | file | topic |
//! |---|---|
//! | [`encode`] | encoders |
//! | [`decode`] | decoders, with a limit on the output of each piece |
//! | `fuzz` | the target of a fuzzer |

pub(crate) mod decode;
pub(crate) mod encode;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
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
    /// Returns the coding with this name, which must be in lower case.
    pub(crate) fn of(name: &[u8]) -> Option<Coding> {
        match name {
            b"gzip" | b"x-gzip" => Some(Coding::Gzip),
            b"deflate" => Some(Coding::Deflate),
            b"br" => Some(Coding::Brotli),
            _ => None,
        }
    }

    /// The lowest level, the highest level, and a level that suits bodies compressed on the fly.
    pub(crate) fn levels(self) -> (u32, u32, u32) {
        match self {
            Coding::Gzip | Coding::Deflate => (1, 9, 5),
            Coding::Brotli => (0, 11, 4),
        }
    }
}
