//! Encoders and decoders. They use no Lua, no sockets, no clock and no threads.
//!
//! The functions take slices of the caller's buffers. Invariant of this folder: for any bytes that a peer sends, the
//! result is a value or a refusal, never a panic, and the work is linear in the number of bytes received, regardless of
//! how they are split.
//!
//! | file | topic | RFC |
//! |---|---|---|
//! | [`http1`] | heads, fields and bodies of HTTP/1 | 9112 |
//! | [`multipart`] | forms with files, decoding | 2046 section 5.1, 7578 |
//! | [`forwarded`] | the fields with which proxies forward a client's address | 7239 |
//! | [`html`] | escaping for HTML | |
//! | [`json`] | JSON, with `serde_json` | 8259 |
//! | [`networks`] | lists of networks in CIDR notation | 4632 section 3.1 |
//! | [`pack`] | Lua values that are sent between VMs | |
//! | [`compression`] | gzip, deflate and brotli in pieces, encoding and decoding | 1950 to 1952, 7932 |
//! | [`date`] | the `Date` value, formatted once a second | 9110 section 5.6.7 |
//! | [`conditional`] | conditional requests | 9110 section 13 |
//! | [`proxy_protocol`] | the PROXY protocol, versions 1 and 2 | |
//! | [`range`] | `Range` fields | 9110 section 14 |
//! | [`accept_encoding`] | `Accept-Encoding` | 9110 section 12.5.3 |
//! | [`media_type`] | media types by file extension | |
//! | [`cookie`] | `Cookie` fields | 6265 section 5.4 |
//! | [`decoded_pairs`] | names and values of queries, forms and routes, decoded | |
//! | [`crypto`] | digests, encryption, password hashes, hexadecimal and base64 | |
//! | [`frames`] | messages with a length before them, as skynet's gate frames them | |
//! | [`skynet_crypt`] | the functions of skynet's module `crypt` | |
//! | [`suggestion`] | hints for words that a program or a user has mistyped | |
//! | [`websocket`] | handshakes, frames and messages of WebSocket, with compression | 6455, 7692 |
//! | `fuzz_fields` | the target of a fuzzer for the small fields | |
//! | `fuzz_input` | the input of a fuzzer, divided into numbers and bytes | |
//! | [`uri`] | percent-encoding, query strings, path normalisation | 3986 sections 2, 6.2.2 |

#![forbid(unsafe_code)]

pub(crate) mod accept_encoding;
pub(crate) mod compression;
pub(crate) mod conditional;
pub(crate) mod cookie;
pub(crate) mod crypto;
pub(crate) mod date;
pub(crate) mod decoded_pairs;
pub(crate) mod forwarded;
pub(crate) mod frames;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz_fields;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz_input;
pub(crate) mod html;
pub(crate) mod http1;
pub(crate) mod json;
pub(crate) mod media_type;
pub(crate) mod multipart;
pub(crate) mod networks;
pub(crate) mod pack;
pub(crate) mod proxy_protocol;
pub(crate) mod range;
pub(crate) mod skynet_crypt;
pub(crate) mod suggestion;
pub(crate) mod uri;
// No server or client uses the codec yet.
#[allow(dead_code)]
pub(crate) mod websocket;

/// Creates a table of 256 booleans: `true` for each byte that meets the condition.
macro_rules! byte_table {
    (|$byte:ident| $holds:expr) => {{
        let (mut table, mut index) = ([false; 256], 0);
        while index < 256 {
            let $byte = index as u8;
            table[index] = $holds;
            index += 1;
        }
        table
    }};
}
use byte_table;

#[cfg(test)]
mod tests;
