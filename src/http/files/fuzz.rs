//! The target `file_path` of the fuzzers: percent-encoding, queries, and the file that the path of a URL names.

use super::{Options, Site};
use crate::codec::decoded_pairs::{InlinePairs, PairList, Pairs};
use crate::codec::fuzz_input::Input;
use crate::codec::uri;
use crate::file::folder::Folder;
use crate::file::read_at;
use rustc_hash::FxBuildHasher;
use std::fs;
use std::hash::BuildHasher;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The files below the folder `root`. The content of each file is its path. Files outside contain `outside`.
const FILES: [&str; 6] = ["a", "b/a", "b/.c", "b/d/a", ".e", "b/%2e"];

/// The links below the folder, with their targets. Some targets are outside the folder.
const LINKS: [(&str, &str); 6] =
    [("l", "b/a"), ("b/m", "../b/d"), ("b/d/o", "../../../out/x"), ("p", "../out"), ("q", "/"), ("b/r", "..")];

/// Returns a folder with the files and the links. All processes of a user share it, so that not each leaves one.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let hash = FxBuildHasher.hash_one((FILES, LINKS, std::env::var_os("HOME")));
        let name = format!("lio-fuzz-{hash:x}");
        let base = std::env::temp_dir().join(&name);
        if !base.exists() {
            let new = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
            fill(&new).expect("a temporary folder");
            // The rename fails if another process has made the folder in the meantime.
            if fs::rename(&new, &base).is_err() {
                let _ = fs::remove_dir_all(&new);
            }
        }
        base.join("root")
    })
}

fn fill(base: &Path) -> std::io::Result<()> {
    let root = base.join("root");
    fs::create_dir_all(root.join("b/d"))?;
    fs::create_dir_all(base.join("out"))?;
    fs::write(base.join("out/x"), "outside")?;
    fs::write(base.join("a"), "outside")?;
    for file in FILES {
        fs::write(root.join(file), file)?;
    }
    LINKS.iter().try_for_each(|(link, target)| symlink(target, root.join(link)))
}

/// Decodes escapes one by one.
fn decoded(text: &[u8], plus_is_space: bool) -> Option<Vec<u8>> {
    let (mut out, mut at) = (Vec::new(), 0);
    while at < text.len() {
        if text[at] == b'%' {
            let digits = text.get(at + 1..at + 3)?;
            let is_number = digits.iter().all(u8::is_ascii_hexdigit);
            let digits = std::str::from_utf8(digits).ok().filter(|_| is_number)?;
            out.push(u8::from_str_radix(digits, 16).ok()?);
            at += 3;
        } else {
            out.push(if text[at] == b'+' && plus_is_space { b' ' } else { text[at] });
            at += 1;
        }
    }
    Some(out)
}

/// Returns the file that a decoded path names, by a walk from part to part; `None` if there is no such file, or if it
/// must not be served.
fn walked(path: &[u8], hidden: bool) -> Option<&'static str> {
    let mut at: Vec<Vec<u8>> = Vec::new();
    let mut parts: Vec<Vec<u8>> = path.split(|&byte| byte == b'/').rev().map(<[u8]>::to_vec).collect();
    let is_bad = |part: &Vec<u8>| part == b".." || part.contains(&0) || part.contains(&b'\\');
    let is_hidden = parts.iter().any(|part| part.first() == Some(&b'.'));
    // An empty last part names a directory.
    if path.first() == Some(&b'/') || parts.iter().any(is_bad) || is_hidden && !hidden || parts[0].is_empty() {
        return None;
    }
    for _ in 0..10_000 {
        let joined = at.join(&b'/');
        let Some(part) = parts.pop() else {
            return FILES.into_iter().find(|file| file.as_bytes() == joined);
        };
        let is_directory = [&b""[..], b"b", b"b/d"].contains(&&joined[..]);
        match &part[..] {
            _ if !is_directory => return None,
            b"" | b"." => {}
            b".." => _ = at.pop()?,
            part => {
                at.push(part.to_vec());
                let joined = at.join(&b'/');
                if let Some((_, target)) = LINKS.into_iter().find(|(link, _)| link.as_bytes() == joined) {
                    at.pop();
                    // No part of this path is the name of a file below the folder.
                    if target.starts_with('/') {
                        return None;
                    }
                    parts.extend(target.split('/').rev().map(|part| part.as_bytes().to_vec()));
                }
            }
        }
    }
    None
}

/// Returns the content of the file that the tail of a URL's path names.
fn opened(tail: &[u8], hidden: bool) -> Option<Vec<u8>> {
    let site = Site::new(Options { hidden, ..Options::default() });
    let path = site.path(tail)?;
    assert!(!path.is_empty() && (hidden || !path.starts_with(b".")));
    let mut folder = Folder::open(folder().as_os_str().as_bytes()).ok()?;
    let file = folder.open_beneath(&path).ok().filter(|file| file.metadata().kind == crate::file::Kind::File)?;
    let mut content = Vec::new();
    read_at(file.descriptor()?, &mut content, 100, 0).ok()?;
    Some(content)
}

/// Checks the functions of `codec::uri` with any text. Returns whether its escapes are valid.
fn check_text(text: &[u8]) -> bool {
    for plus_is_space in [false, true] {
        let mut out = Vec::new();
        let is_valid = uri::percent_decode(text, plus_is_space, &mut out).is_ok();
        let expected = decoded(text, plus_is_space);
        assert_eq!(is_valid.then_some(&out), expected.as_ref(), "readers agree on escapes");
        if !uri::needs_decode(text, plus_is_space) {
            assert!(is_valid && out == text);
        }
    }
    let (mut encoded, mut again) = (Vec::new(), Vec::new());
    uri::percent_encode(text, &mut encoded);
    assert!(encoded.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%".contains(byte)));
    assert_eq!(uri::percent_decode(&encoded, true, &mut again), Ok(()));
    assert_eq!(again, text, "encoded text is decoded again");
    let (mut scratch, mut other) = (Vec::new(), Vec::new());
    let normal = uri::normal_path(text, &mut scratch);
    assert_eq!(normal.is_some(), decoded(text, false).is_some(), "readers agree on escapes");
    if let Some(normal) = normal {
        assert_eq!(decoded(normal, false), decoded(text, false), "a normal path has the same meaning");
        assert_eq!(uri::normal_path(normal, &mut other), Some(normal), "a normal path is normal");
        assert!(normal.is_ascii() && normal.len() <= 3 * text.len());
    }
    normal.is_some()
}

/// Checks the pairs of a query against a second reader. Returns their number.
fn check_query(query: &[u8]) -> usize {
    let decoded = |text: &[u8]| decoded(text, true).unwrap_or(text.to_vec());
    let pair = |pair: &[u8]| {
        let mut sides = pair.splitn(2, |&byte| byte == b'=');
        (decoded(sides.next().unwrap_or_default()), decoded(sides.next().unwrap_or_default()))
    };
    let texts = query.split(|&byte| byte == b'&').filter(|text| !text.is_empty());
    let mut expected: Vec<_> = texts.map(pair).collect();
    expected.sort_by(|(one, _), (other, _)| one.cmp(other));
    let pairs = Pairs::of_query(query);
    let found: Vec<_> =
        (0..pairs.len()).map(|index| (pairs.name(index).to_vec(), pairs.value(index).to_vec())).collect();
    assert_eq!(found, expected, "readers agree on the pairs");
    let mut index = 0;
    while index < pairs.len() {
        let count = pairs.values(index);
        assert_eq!(count, expected.iter().filter(|(name, _)| name == pairs.name(index)).count());
        index += count;
    }
    let parameters = || [("a", query), ("name", &query[..query.len() / 3])].into_iter();
    if let Some(inline) = InlinePairs::of(parameters()) {
        let all = Pairs::of_parameters(parameters());
        for index in 0..2 {
            assert_eq!((inline.name(index), inline.value(index)), (all.name(index), all.value(index)));
        }
    }
    found.len()
}

/// Opens the file that the input names. The input: flags, the rest of a URL after the path of a served folder. Returns
/// the content, and the number of pairs of the query.
pub(crate) fn file_path(data: &[u8]) -> (Option<String>, usize) {
    let mut input = Input(data);
    let hidden = input.byte() & 1 != 0;
    let question = input.0.iter().position(|&byte| byte == b'?').unwrap_or(input.0.len());
    let (tail, query) = input.0.split_at(question);
    let is_valid = check_text(tail);
    check_text(query);
    let pairs = check_query(query.strip_prefix(b"?").unwrap_or_default());
    let content = opened(tail, hidden);
    let expected = decoded(tail, false).and_then(|path| walked(&path, hidden));
    assert_eq!(content.as_deref(), expected.map(str::as_bytes), "readers agree on the file");
    assert!(content.is_none() || is_valid);
    (expected.map(str::to_string), pairs)
}

/// Returns seeds of [`file_path`].
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "\0a?b=c&d=%20+&b=&&=x&%zz=%4",
        "\0b/%61?key=value",
        "\0b//d/./a",
        "\x01b//d/./a",
        "\x01.e",
        "\0.e",
        "\x01b/.c",
        "\x01b/%252e",
        "\0l",
        "\0b/m/a",
        "\0b/r/l",
        "\0b/d/o",
        "\0p/x",
        "\0q/etc/passwd",
        "\x01b/../a",
        "\x01b/%2e%2e/a",
        "\x01..%2fa",
        "\0/a",
        "\0%2fa",
        "\0a%00",
        "\0b%5ca",
        "\0b/",
        "\0a/",
        "\0%",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_reach_files_links_and_refusals() {
        let all: Vec<_> = seeds().iter().map(|seed| file_path(seed)).collect();
        let all: Vec<_> = all.iter().map(|(file, pairs)| (file.as_deref().unwrap_or("none"), *pairs)).collect();
        let expected = [
            ("a", 5),
            ("b/a", 1),
            ("none", 0),
            ("b/d/a", 0),
            (".e", 0),
            ("none", 0),
            ("b/.c", 0),
            ("b/%2e", 0),
            ("b/a", 0),
            ("b/d/a", 0),
            ("b/a", 0),
            ("none", 0),
            ("none", 0),
            ("none", 0),
            ("none", 0),
            ("none", 0),
            ("none", 0),
            ("none", 0),
            ("none", 0),
            ("none", 0),
            ("none", 0),
            ("none", 0),
            ("none", 0),
            ("none", 0),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn inputs_of_any_length_are_valid() {
        for length in 0..40 {
            for first in [0, 0xff, b'/', b'.', b'%', b'&'] {
                file_path(&vec![first; length]);
            }
        }
    }
}
