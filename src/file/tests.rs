//! Tests with paths that try to leave a folder, resolved with openat2 and without it.

use super::beneath;
use super::folder::Folder;
use super::{Kind, Metadata, OpenFile, READ_FLAGS, Refusal};
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder `root` with files and links, and a secret file beside it. `Drop` removes everything.
struct Site(PathBuf);

impl Site {
    fn new() -> Site {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("lio-file-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let base = std::env::temp_dir().join(name);
        let root = base.join("root");
        fs::create_dir_all(root.join("sub/deep")).unwrap();
        fs::write(base.join("secret"), "secret").unwrap();
        fs::write(root.join("a.txt"), "a").unwrap();
        fs::write(root.join("sub/b.txt"), "bb").unwrap();
        symlink("sub/b.txt", root.join("inside")).unwrap();
        symlink("../../a.txt", root.join("sub/deep/up")).unwrap();
        symlink(root.join("a.txt"), root.join("absolute")).unwrap();
        symlink("../secret", root.join("outside")).unwrap();
        symlink("/etc/passwd", root.join("far")).unwrap();
        symlink("..", root.join("parent")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        symlink("nowhere", root.join("dangling")).unwrap();
        Site(base)
    }

    fn root(&self) -> PathBuf {
        self.0.join("root")
    }

    fn folder(&self) -> Folder {
        Folder::open(self.root().as_os_str().as_encoded_bytes()).ok().unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the code of a refusal, as programs get it.
fn code(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Word(_, code) => code,
        Refusal::System(error) => match error.kind() {
            std::io::ErrorKind::NotFound => "not found",
            std::io::ErrorKind::NotADirectory => "ENOTDIR",
            _ => "failed",
        },
    }
}

/// Paths with the size of their target, or the code of the refusal.
const PATHS: &[(&str, Result<u64, &str>)] = &[
    ("a.txt", Ok(1)),
    ("sub/b.txt", Ok(2)),
    ("sub//b.txt", Ok(2)),
    ("./a.txt", Ok(1)),
    ("inside", Ok(2)),
    ("sub/deep/up", Ok(1)),
    ("absolute", Ok(1)),
    ("outside", Err("outside")),
    ("far", Err("outside")),
    ("parent/secret", Err("outside")),
    ("parent/root/a.txt", Ok(1)),
    ("loop", Err("not found")),
    ("dangling", Err("not found")),
    ("none", Err("not found")),
    ("a.txt/", Err("ENOTDIR")),
    ("a.txt/x", Err("ENOTDIR")),
    ("../secret", Err("outside")),
    ("sub/../a.txt", Err("outside")),
    ("sub/..", Err("outside")),
    ("..", Err("outside")),
    ("/etc/passwd", Err("outside")),
    ("sub\\b.txt", Err("outside")),
    ("a.txt\0.png", Err("outside")),
];

#[test]
fn all_files_inside_a_folder_are_opened_and_none_outside() {
    let site = Site::new();
    let mut folder = site.folder();
    for (path, expected) in PATHS {
        let opened = folder.open_beneath(path.as_bytes());
        let got = opened.map(|file| file.metadata().size).map_err(code);
        assert_eq!(got, *expected, "{path:?}");
    }
}

#[test]
fn paths_are_checked_without_the_kernels_help() {
    let site = Site::new();
    for (path, expected) in PATHS {
        let checked = beneath::check(path.as_bytes());
        let opened =
            checked.and_then(|()| beneath::by_name(&site.root(), path.as_bytes(), READ_FLAGS).map_err(Refusal::from));
        let got = opened.map(|file| Metadata::of(file).unwrap().size).map_err(code);
        assert_eq!(got, *expected, "{path:?}");
    }
}

#[test]
fn files_that_could_block_the_loop_are_refused_without_a_wait() {
    let site = Site::new();
    let path = site.root().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0)
        .unwrap();
    let refusal = |opened: Result<OpenFile, Refusal>| code(opened.err().unwrap());
    let fifo = OpenFile::open(path.as_os_str().as_encoded_bytes());
    assert_eq!(refusal(fifo), "not a file");
    assert_eq!(refusal(OpenFile::open(b"/dev/null")), "not a file");
    assert_eq!(refusal(site.folder().open_beneath(b"fifo")), "not a file");
}

#[test]
fn a_listing_has_directories_first_and_no_links_to_the_outside() {
    let site = Site::new();
    fs::write(site.root().join("B.txt"), "").unwrap();
    let (entries, more) = site.folder().list(b"", 100).ok().unwrap();
    let names: Vec<(&str, Kind)> =
        entries.iter().map(|entry| (std::str::from_utf8(&entry.name).unwrap(), entry.metadata.kind)).collect();
    let expected = [
        ("sub", Kind::Directory),
        ("a.txt", Kind::File),
        ("absolute", Kind::File),
        ("B.txt", Kind::File),
        ("inside", Kind::File),
    ];
    assert_eq!(names, expected);
    assert!(!more);
    let (entries, more) = site.folder().list(b"", 2).ok().unwrap();
    assert!(entries.len() == 2 && more);
    let refusal = site.folder().list(b"a.txt", 2).err().unwrap();
    assert_eq!(code(refusal), "ENOTDIR");
}

#[test]
fn a_folder_follows_its_path_at_the_next_check() {
    let site = Site::new();
    let next = site.0.join("next");
    fs::create_dir(&next).unwrap();
    fs::write(next.join("a.txt"), "a new one").unwrap();
    let link = site.0.join("current");
    symlink(site.root(), &link).unwrap();
    let mut folder = Folder::open(link.as_os_str().as_encoded_bytes()).ok().unwrap();
    assert_eq!(folder.open_beneath(b"a.txt").ok().unwrap().metadata().size, 1);
    fs::remove_file(&link).unwrap();
    symlink(&next, &link).unwrap();
    folder.expire_check();
    assert_eq!(folder.open_beneath(b"a.txt").ok().unwrap().metadata().size, 9);
    fs::remove_file(&link).unwrap();
    folder.expire_check();
    let refusal = folder.open_beneath(b"a.txt").err().unwrap();
    assert_eq!(code(refusal), "not found");
}

#[test]
fn reads_start_at_an_offset_and_end_at_the_end_of_the_file() {
    let site = Site::new();
    let file = fs::File::open(site.root().join("sub/b.txt")).unwrap();
    for (offset, expected) in [(0, 2), (1, 1), (2, 0), (u64::MAX, 0)] {
        let mut out = b"before".to_vec();
        let got = super::read_at(file.as_fd(), &mut out, 8, offset);
        assert_eq!(got.unwrap_or(0), expected, "{offset}");
        assert_eq!(out, b"beforebb"[..6 + expected], "{offset}");
    }
}
