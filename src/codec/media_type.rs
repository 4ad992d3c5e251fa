//! Media types of files by the extension of their names.

/// Types that `mime_guess` lists differently from what browsers expect today.
const OVERRIDES: [(&str, &str); 4] =
    [("cjs", "text/javascript"), ("map", "application/json"), ("mjs", "text/javascript"), ("ts", "video/mp2t")];

/// Returns the media type for a file name; `application/octet-stream` if the extension is unknown.
pub(crate) fn of(name: &[u8]) -> &'static str {
    known(name).unwrap_or("application/octet-stream")
}

/// Whether the type is text, so that the parameter `charset` is added.
pub(crate) fn is_text(media_type: &str) -> bool {
    media_type.starts_with("text/")
}

/// Whether compressing a file of this type saves space.
pub(crate) fn is_compressible(media_type: &str) -> bool {
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
    is_text(media_type)
        || plain.contains(&media_type)
        || media_type.ends_with("+xml")
        || media_type.ends_with("+json")
        || media_type.starts_with("font/") && !packed.contains(&media_type)
}

/// Returns the value of `Content-Type` for a media type that [`of`] has returned.
pub(crate) fn with_charset(media_type: &str) -> String {
    let charset = if is_text(media_type) { "; charset=utf-8" } else { "" };
    format!("{media_type}{charset}")
}

/// Returns the media type for a common extension in lower case, without searching the table of `mime_guess`; `None` for
/// any other extension. The result equals the type in that table.
fn common(extension: &[u8]) -> Option<&'static str> {
    Some(match extension {
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
    let extension = &name[memchr::memrchr(b'.', name)? + 1..];
    common(extension).or_else(|| {
        let extension = std::str::from_utf8(extension).ok()?;
        let entry = OVERRIDES.iter().find(|(known, _)| known.eq_ignore_ascii_case(extension));
        entry.map(|(_, media_type)| *media_type).or_else(|| mime_guess::from_ext(extension).first_raw())
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
        for (name, media_type) in expected {
            assert_eq!(of(name.as_bytes()), media_type, "{name}");
        }
        assert_eq!(of(b"bad.\xff"), "application/octet-stream");
    }

    #[test]
    fn the_common_types_equal_those_of_mime_guess() {
        let extensions = [
            "avif", "css", "gif", "html", "ico", "jpg", "jpeg", "js", "json", "pdf", "png", "svg", "txt", "wasm",
            "webp", "woff2", "xml",
        ];
        for extension in extensions {
            let known = mime_guess::from_ext(extension).first_raw();
            assert_eq!(common(extension.as_bytes()), known, "{extension}");
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
