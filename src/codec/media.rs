//! Media types of files by the extension of their names.

/// Types that `mime_guess` lists differently from what browsers expect today.
const OWN: [(&str, &str); 4] =
    [("cjs", "text/javascript"), ("map", "application/json"), ("mjs", "text/javascript"), ("ts", "video/mp2t")];

/// Returns the media type for a file name; `application/octet-stream` if the extension is unknown.
pub(crate) fn of(name: &[u8]) -> &'static str {
    known(name).unwrap_or("application/octet-stream")
}

/// Whether the type is text, so that the parameter `charset` is added.
pub(crate) fn is_text(kind: &str) -> bool {
    kind.starts_with("text/")
}

/// Whether a compressed copy of files of this type saves space.
pub(crate) fn is_compressible(kind: &str) -> bool {
    let packed = ["font/woff", "font/woff2"];
    let plain = [
        "application/json",
        "application/javascript",
        "application/wasm",
        "application/xml",
        "application/octet-stream",
        "image/bmp",
        "image/x-icon",
    ];
    is_text(kind)
        || plain.contains(&kind)
        || kind.ends_with("+xml")
        || kind.ends_with("+json")
        || kind.starts_with("font/") && !packed.contains(&kind)
}

/// Returns the value of `Content-Type` for a media type that [`of`] has returned.
pub(crate) fn with_charset(kind: &str) -> String {
    let charset = if is_text(kind) { "; charset=utf-8" } else { "" };
    format!("{kind}{charset}")
}

/// The most frequent types, as `mime_guess` lists them: they are found without a search in its table.
fn common(end: &[u8]) -> Option<&'static str> {
    Some(match end {
        b"avif" => "image/avif",
        b"css" => "text/css",
        b"gif" => "image/gif",
        b"html" => "text/html",
        b"ico" => "image/x-icon",
        b"jpg" | b"jpeg" => "image/jpeg",
        b"js" => "text/javascript",
        b"json" => "application/json",
        b"pdf" => "application/pdf",
        b"png" => "image/png",
        b"svg" => "image/svg+xml",
        b"txt" => "text/plain",
        b"wasm" => "application/wasm",
        b"webp" => "image/webp",
        b"woff2" => "font/woff2",
        b"xml" => "text/xml",
        _ => return None,
    })
}

fn known(name: &[u8]) -> Option<&'static str> {
    let name = memchr::memrchr(b'/', name).map_or(name, |slash| &name[slash + 1..]);
    let end = &name[memchr::memrchr(b'.', name)? + 1..];
    common(end).or_else(|| {
        let end = std::str::from_utf8(end).ok()?;
        let own = OWN.iter().find(|(own, _)| own.eq_ignore_ascii_case(end));
        own.map(|(_, kind)| *kind).or_else(|| mime_guess::from_ext(end).first_raw())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_those_that_browsers_expect() {
        let expected = [
            ("index.html", "text/html"),
            ("a/b/APP.JS", "text/javascript"),
            ("app.mjs", "text/javascript"),
            ("style.css", "text/css"),
            ("data.json", "application/json"),
            ("logo.svg", "image/svg+xml"),
            ("module.wasm", "application/wasm"),
            ("photo.jpeg", "image/jpeg"),
            ("live.ts", "video/mp2t"),
            ("app.js.map", "application/json"),
            ("README", "application/octet-stream"),
            ("dir.d/README", "application/octet-stream"),
            ("name.\u{e9}\u{e9}", "application/octet-stream"),
            (".", "application/octet-stream"),
            ("", "application/octet-stream"),
        ];
        for (name, kind) in expected {
            assert_eq!(of(name.as_bytes()), kind, "{name}");
        }
        assert_eq!(of(b"bad.\xff"), "application/octet-stream");
    }

    #[test]
    fn the_common_types_equal_those_of_mime_guess() {
        let ends = [
            "avif", "css", "gif", "html", "ico", "jpg", "jpeg", "js", "json", "pdf", "png", "svg", "txt", "wasm",
            "webp", "woff2", "xml",
        ];
        for end in ends {
            let known = mime_guess::from_ext(end).first_raw();
            assert_eq!(common(end.as_bytes()), known, "{end}");
        }
    }

    #[test]
    fn text_is_compressible_and_images_are_not() {
        for name in ["a.html", "a.js", "a.svg", "a.json", "a.wasm", "a.ttf"] {
            assert!(is_compressible(of(name.as_bytes())), "{name}");
        }
        for name in ["a.png", "a.woff2", "a.mp4", "a.zip"] {
            assert!(!is_compressible(of(name.as_bytes())), "{name}");
        }
    }
}
