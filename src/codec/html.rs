//! Escaping of text for HTML. Used by `web.escape` and for the pages that the library generates.

use super::byte_table;

/// The bytes that have a meaning in the content or in a quoted attribute of an HTML page.
const SPECIAL: [bool; 256] = byte_table!(|b| matches!(b, b'&' | b'<' | b'>' | b'"' | b'\''));

/// Returns the escape of a special byte.
fn escape_of(byte: u8) -> &'static [u8] {
    match byte {
        b'&' => b"&amp;",
        b'<' => b"&lt;",
        b'>' => b"&gt;",
        b'"' => b"&quot;",
        _ => b"&#39;",
    }
}

/// Appends `text` to `out`, escaped for the content or for a quoted attribute of an HTML page.
pub(crate) fn escape(text: &[u8], out: &mut Vec<u8>) {
    out.reserve(text.len());
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| SPECIAL[byte as usize]) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(escape_of(rest[at]));
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_five_special_bytes_are_escaped_and_no_others() {
        let all: Vec<u8> = (0..=255).collect();
        let mut out = Vec::new();
        escape(&all, &mut out);
        let mut expected = Vec::new();
        for byte in all {
            match byte {
                b'&' => expected.extend_from_slice(b"&amp;"),
                b'<' => expected.extend_from_slice(b"&lt;"),
                b'>' => expected.extend_from_slice(b"&gt;"),
                b'"' => expected.extend_from_slice(b"&quot;"),
                b'\'' => expected.extend_from_slice(b"&#39;"),
                other => expected.push(other),
            }
        }
        assert_eq!(out, expected);
    }
}
