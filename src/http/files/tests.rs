//! Tests of sites and the cache, in temporary folders.

use super::cache::Cache;
use super::compressed_copies::MissingCopies;
use super::site::{Content, Options, Representation, Site};
use super::validators::{Choice, Validators};
use crate::codec::http1::head::{Limits, Parser, Progress};
use crate::codec::http1::request::RequestHead;
use crate::codec::range::Span;
use crate::file::folder::Folder;
use crate::file::{Kind, Metadata};
use crate::http::server::Clock;
use bytes::Bytes;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn metadata(size: u64) -> Metadata {
    Metadata { kind: Kind::File, size, seconds: 1000, nanoseconds: 5, changed: (1000, 0), inode: 1, device: 1 }
}

/// A temporary folder and its site. `Drop` removes the folder.
struct Served {
    root: PathBuf,
    folder: Folder,
    site: Site,
}

impl Served {
    fn new(name: &str, options: Options) -> Served {
        let root = std::env::temp_dir().join(format!("lio-files-{}-{name}", std::process::id()));
        fs::create_dir_all(&root).expect("a temporary folder");
        let folder = Folder::open(root.as_os_str().as_bytes());
        Served { folder: folder.unwrap_or_else(|_| panic!("no folder")), site: Site::new(options), root }
    }

    fn cached(name: &str) -> Served {
        let options = Options { cache: 10_000, cache_file: 2000, precompressed: true, ..Options::default() };
        Served::new(name, options)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.root.join(name), text).expect("the file is written");
    }

    fn find(&mut self, path: &str, accepted: [Option<&'static str>; 2]) -> Option<Representation> {
        let path = path.as_bytes().to_vec();
        self.site.find(&mut self.folder, path, accepted, later()).ok()
    }

    /// Returns the text of a file, and whether it was cached.
    fn get(&mut self, path: &str, accepted: [Option<&'static str>; 2]) -> Option<(String, bool)> {
        let found = self.find(path, accepted)?;
        let was_cached = matches!(found.content, Content::Bytes(_));
        let bytes = self.site.load(&found, &Choice::Whole, later())?;
        Some((String::from_utf8_lossy(&bytes).into_owned(), was_cached))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Returns a time long after the last changes of the test's files.
fn later() -> Clock {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Clock { now: 0, unix: now.unwrap_or(Duration::ZERO).as_secs() + 100 }
}

const NONE: [Option<&str>; 2] = [None; 2];

#[test]
fn a_file_is_read_once_until_it_changes() {
    let mut served = Served::cached("once");
    assert_eq!(served.get("a.txt", NONE), None);
    served.write("a.txt", "one");
    assert_eq!(served.get("a.txt", NONE), Some(("one".into(), false)));
    assert_eq!(served.get("a.txt", NONE), Some(("one".into(), true)));
    // The new file has the same size and another inode.
    served.write("b.txt", "two");
    fs::rename(served.root.join("b.txt"), served.root.join("a.txt")).expect("renamed");
    assert_eq!(served.get("a.txt", NONE), Some(("two".into(), false)));
    // The file keeps its inode and size, and its modification time is set back.
    let stat = |served: &Served| fs::metadata(served.root.join("a.txt")).expect("metadata");
    let before = stat(&served);
    // The loop ends when the system's clock has advanced.
    while stat(&served).ctime_nsec() == before.ctime_nsec() {
        served.write("a.txt", "xxx");
    }
    let file = fs::File::options().write(true).open(served.root.join("a.txt"));
    let set = file.and_then(|file| file.set_modified(before.modified()?));
    set.expect("the time is set");
    assert_eq!(served.get("a.txt", NONE), Some(("xxx".into(), false)));
    assert_eq!(served.get("a.txt", NONE), Some(("xxx".into(), true)));
    fs::remove_file(served.root.join("a.txt")).expect("removed");
    assert_eq!(served.get("a.txt", NONE), None);
}

#[test]
fn a_file_that_has_just_changed_is_not_cached() {
    let mut served = Served::cached("fresh");
    served.write("a.txt", "one");
    let now = Clock { unix: later().unix - 100, now: 0 };
    for _ in 0..2 {
        let found = served.find("a.txt", NONE).expect("found");
        assert!(matches!(found.content, Content::File(_)));
        let bytes = served.site.load(&found, &Choice::Whole, now);
        assert_eq!(bytes.as_deref(), Some(&b"one"[..]));
    }
}

#[test]
fn large_files_are_not_cached_and_beyond_a_limit_not_read() {
    let mut served = Served::cached("long");
    served.write("a.txt", &"x".repeat(2001));
    served.write("b.txt", &"x".repeat(40_000));
    for _ in 0..2 {
        assert!(served.get("a.txt", NONE).is_some_and(|(text, cached)| text.len() == 2001 && !cached));
    }
    let found = served.find("b.txt", NONE).expect("found");
    assert!(served.site.load(&found, &Choice::Whole, later()).is_none());
    let part = Choice::Parts(vec![Span { first: 39_990, length: 10 }]);
    let bytes = served.site.load(&found, &part, later());
    assert_eq!(bytes.as_deref(), Some(&b"xxxxxxxxxx"[..]));
    assert!(found.into_original().is_some());
}

#[test]
fn nothing_is_cached_if_the_cache_is_disabled() {
    let mut served = Served::new("off", Options::default());
    served.write("a.txt", "one");
    for _ in 0..2 {
        assert_eq!(served.get("a.txt", NONE), Some(("one".into(), false)));
    }
}

#[test]
fn copies_are_cached_and_must_not_be_older_than_their_files() {
    let mut served = Served::cached("copies");
    let brotli = [Some("br"), Some("gzip")];
    served.write("a.txt", "plain");
    served.write("a.txt.br", "small");
    assert_eq!(served.get("a.txt", brotli), Some(("small".into(), false)));
    assert_eq!(served.get("a.txt", brotli), Some(("small".into(), true)));
    assert_eq!(served.get("a.txt", NONE), Some(("plain".into(), false)));
    assert_eq!(served.get("a.txt", NONE), Some(("plain".into(), true)));
    // The compressed copy of an image is not served.
    served.write("a.png", "plain");
    served.write("a.png.br", "small");
    assert_eq!(served.get("a.png", brotli), Some(("plain".into(), false)));
    // The copy is now older than its file.
    let copy = fs::File::options().write(true).open(served.root.join("a.txt.br"));
    let set = copy.and_then(|file| file.set_modified(UNIX_EPOCH));
    set.expect("the time is set");
    assert_eq!(served.get("a.txt", brotli), Some(("plain".into(), true)));
}

#[test]
fn a_link_to_the_outside_is_not_served_from_the_cache() {
    let mut served = Served::cached("link");
    served.write("a.txt", "one");
    assert_eq!(served.get("a.txt", NONE), Some(("one".into(), false)));
    fs::remove_file(served.root.join("a.txt")).expect("removed");
    std::os::unix::fs::symlink("/etc/passwd", served.root.join("a.txt")).expect("linked");
    assert_eq!(served.get("a.txt", NONE), None);
}

#[test]
fn hidden_files_are_not_served() {
    let shown = Site::new(Options::default());
    let path = |tail: &str| shown.path(tail.as_bytes());
    assert_eq!(path("a/b%20c").as_deref(), Some(&b"a/b c"[..]));
    for tail in ["", "a/", ".a", "a/.b", "%2ea", "a/%2Eb", "%zz"] {
        assert_eq!(path(tail), None, "{tail}");
    }
    let all = Site::new(Options { hidden: true, ..Options::default() });
    assert_eq!(all.path(b".a").as_deref(), Some(&b".a"[..]));
}

#[test]
fn the_cache_stays_within_its_limits_and_keeps_used_entries() {
    let mut cache = Cache::new(10_000, 1000);
    let body = |byte: u8| Some(Bytes::from(vec![byte; 500]));
    for round in 0..100u8 {
        cache.put(&[round], &metadata(500), body(round));
        assert!(cache.content(&[0]).is_some(), "{round}");
        let (count, size) = cache.size();
        assert!(size <= 10_000 && count <= 14, "{count} {size}");
    }
    assert!(cache.content(&[1]).is_none() && cache.content(&[99]).is_some());
    cache.put(&[99], &metadata(500), None);
    assert!(cache.content(&[99]).is_none() && cache.metadata(&[99]).is_some());
    for round in 0..100u8 {
        cache.remove(&[round]);
    }
    assert_eq!(cache.size(), (0, 0));
    assert!(!cache.accepts(&metadata(1001), 5000) && cache.accepts(&metadata(1000), 5000));
    assert!(!cache.accepts(&metadata(10), 1002) && cache.accepts(&metadata(10), 1003));
    assert!(!Cache::new(0, 0).accepts(&metadata(0), 5000));
}

#[test]
fn a_missing_copy_is_cached_for_a_short_time() {
    let mut missing = MissingCopies::default();
    missing.insert(b"a", 1000);
    assert!(missing.contains(b"a", 2_000_000_999) && !missing.contains(b"a", 2_000_001_000));
    assert!(!missing.contains(b"b", 1000));
}

#[test]
fn conditions_and_ranges_determine_the_response() {
    let known = Validators::of(&metadata(100), None, 2000);
    assert_eq!(known.tag(), b"\"64-3e8.5\"");
    assert_eq!(Validators::of(&metadata(100), Some("br"), 2000).tag(), b"\"64-3e8.5-br\"");
    let choose = |method: &str, fields: &str| {
        let bytes = format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let bytes = bytes.as_bytes();
        let mut parser = Parser::new();
        let parsed = parser.parse(bytes, &Limits::default(), &mut Progress::default());
        let head = parsed.expect("well-formed").expect("complete");
        known.choose(RequestHead { head, bytes }, 100)
    };
    let part = |first, length| Span { first, length };
    for (fields, choice) in [
        ("", Choice::Whole),
        ("If-None-Match: \"64-3e8.5\"\r\n", Choice::NotModified),
        ("If-None-Match: \"x\"\r\n", Choice::Whole),
        ("If-Match: \"x\"\r\n", Choice::Failed),
        ("Range: bytes=10-19\r\n", Choice::Parts(vec![part(10, 10)])),
        ("Range: bytes=0-0, 5-6\r\n", Choice::Parts(vec![part(0, 1), part(5, 2)])),
        ("Range: bytes=100-\r\n", Choice::Unsatisfiable),
        ("Range: bytes=0-1\r\nIf-Range: \"x\"\r\n", Choice::Whole),
    ] {
        assert_eq!(choose("GET", fields), choice, "{fields}");
    }
    assert_eq!(choose("HEAD", "Range: bytes=0-1\r\n"), Choice::Whole);
    let statuses = [Choice::Whole, Choice::NotModified, Choice::Failed, Choice::Unsatisfiable];
    assert_eq!(statuses.map(|choice| choice.status()), [200, 304, 412, 416]);
}
