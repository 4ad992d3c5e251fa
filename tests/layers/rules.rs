//! The rules. Each rule is a function that returns the violations in the sources, one line for each violation.

use crate::source::{File, Sources};
use std::collections::{BTreeMap, BTreeSet};

/// The folders of `src/`, from the top down. A file may import files of the same folder, and of folders with a lower
/// rank.
const RANKS: &[(&str, u32)] = &[
    ("src/lib.rs", 14),
    ("src/main.rs", 14),
    ("src/cli/", 13),
    ("src/modules/", 12),
    ("src/http/mod.rs", 11),
    ("src/http/memory.rs", 11),
    ("src/http/files/", 11),
    ("src/http/server/", 10),
    ("src/http/client/", 10),
    ("src/http/router/", 9),
    ("src/ltask/", 8),
    ("src/task/", 7),
    ("src/stream/", 6),
    ("src/tls/", 5),
    ("src/socket/", 4),
    ("src/file/", 4),
    ("src/terminal/", 4),
    ("src/event/", 3),
    ("src/codec/", 2),
    ("src/lua/", 1),
    ("src/memory/", 0),
];

/// Folders that must not use Lua, so that tests can use them without Lua.
const WITHOUT_LUA: &[&str] =
    &["src/codec/", "src/event/", "src/socket/", "src/file/", "src/stream/", "src/terminal/", "src/tls/", "src/http/"];

/// Files outside `src/lua/` that may contain `unsafe`, at most ten, and why safe Rust is not enough.
/// `docs/architecture.md` has the same table.
pub const UNSAFE: &[(&str, &str)] = &[
    ("src/event/adopt.rs", "descriptors that are handed over as numbers"),
    ("src/event/signals.rs", "signal handlers and dispositions"),
    ("src/ltask/crash.rs", "the handler of fatal signals"),
    ("src/memory/arena.rs", "the memory of VMs"),
    ("src/memory/trim.rs", "the memory of VMs"),
    ("src/ltask/message.rs", "blocks of malloc that C code may free"),
    ("src/ltask/c_functions.rs", "functions that C code calls"),
    ("src/ltask/thread_clock.rs", "the processor time of a thread"),
    ("src/socket/sendfile.rs", "the signal mask around sendfile(2)"),
];

/// The maximum number of `unsafe` blocks.
const BLOCKS: usize = 150;

/// The maximum number of code lines of `src/`, without tests, comments and blank lines, with room for TLS and WebSocket;
/// and the maximum number of lines of one file, without tests.
const CODE_LINES: usize = 42_000;
const FILE_LINES: usize = 500;

/// Files that may have thread-local data or mutable statics, and a description of the data. Objects of a VM do not
/// share this data.
const THREADS: &[(&str, &str)] = &[
    ("src/lua/scratch.rs", "bytes on their way to Lua"),
    ("src/lua/store.rs", "an address that tells threads apart"),
    ("src/modules/json/mod.rs", "memory for a text"),
    ("src/modules/pack/packing.rs", "memory for messages"),
    ("src/lua/interrupt.rs", "the VM that runs on this thread"),
    ("src/ltask/progress.rs", "the slice that runs on this thread"),
    ("src/ltask/scheduler.rs", "the worker that this thread is"),
    ("src/modules/template/large_stack.rs", "whether a panic on this thread is reported"),
    ("src/event/pause.rs", "a function pointer"),
    ("src/tls/session.rs", "memory for bytes that are decrypted at once"),
];

/// Crates that only these folders may name.
const CRATES: &[(&str, &[&str])] = &[("mlua", &["src/lua/", "src/lib.rs"]), ("rustls", &["src/tls/"])];

/// Names that the codec must not use: it has no system calls, no clock and no threads.
const NOT_IN_CODEC: &[&str] = &[
    "std::fs",
    "std::net",
    "std::thread",
    "std::process",
    "std::os",
    "std::time::Instant",
    "mio",
    "rustix",
    "socket2",
    "libc",
];

/// Returns all violations, sorted.
pub fn violations(sources: &Sources<'_>) -> BTreeSet<String> {
    let files = &sources.files;
    let mut found = BTreeSet::new();
    found.extend(upward(files));
    found.extend(uses_of_lua(files));
    found.extend(circles(files).into_iter().map(|file| format!("circle {file}")));
    found.extend(without_right_to_unsafe(files));
    found.extend(repeated_arguments(files));
    found.extend(shared_by_threads(files));
    found.extend(foreign_crates(files));
    found.extend(too_long(files));
    found
}

type Files = BTreeMap<String, File>;

fn layer(path: &str) -> (&'static str, u32) {
    let found = RANKS.iter().find(|(folder, _)| path.starts_with(folder));
    *found.unwrap_or_else(|| panic!("{path} is in no layer: name its folder in RANKS"))
}

/// Finds imports of a higher layer, or of another folder of the same rank.
fn upward(files: &Files) -> Vec<String> {
    let mut found = Vec::new();
    for (path, file) in files {
        let (folder, rank) = layer(path);
        for import in &file.imports {
            let (other, above) = layer(import);
            if above > rank || above == rank && other != folder {
                found.push(format!("upward {path} -> {import}"));
            }
        }
    }
    found
}

/// Finds uses of the Lua core where it must not be used.
fn uses_of_lua(files: &Files) -> Vec<String> {
    let without = files.iter().filter(|(path, _)| WITHOUT_LUA.iter().any(|folder| path.starts_with(folder)));
    let with = without.filter(|(_, file)| file.imports.iter().any(|import| import.starts_with("src/lua/")));
    with.map(|(path, _)| format!("lua {path}")).collect()
}

/// Finds the files in import cycles: the files that import themselves, directly or indirectly.
fn circles(files: &Files) -> Vec<String> {
    let reaches_itself = |start: &&String| {
        let mut seen = BTreeSet::new();
        let mut open: Vec<&String> = files[*start].imports.iter().collect();
        while let Some(path) = open.pop() {
            if path == *start {
                return true;
            }
            if seen.insert(path) {
                open.extend(&files[path].imports);
            }
        }
        false
    };
    files.keys().filter(reaches_itself).cloned().collect()
}

fn may_be_unsafe(path: &str) -> bool {
    path.starts_with("src/lua/") || UNSAFE.iter().any(|(file, _)| *file == path)
}

/// Counts the keyword `unsafe`. The identifier `unsafe_code` does not count.
fn count_unsafe(file: &File) -> usize {
    file.tokens.iter().filter(|token| *token == "unsafe").count()
}

/// Counts the `unsafe` blocks.
fn count_blocks(file: &File) -> usize {
    let pairs = file.tokens.windows(2);
    pairs.filter(|pair| pair[0] == "unsafe" && pair[1] == "(").count()
}

fn without_right_to_unsafe(files: &Files) -> Vec<String> {
    let mut found = Vec::new();
    let is_below = |path: &str, head: &str| {
        let folder = head.trim_end_matches("mod.rs").trim_end_matches(".rs");
        path == head || path.starts_with(folder)
    };
    for (path, file) in files {
        if count_unsafe(file) > 0 && !may_be_unsafe(path) {
            found.push(format!("unsafe {path}"));
        }
        // Report a folder that has the permission but does not need it.
        for head in &file.allows_unsafe {
            let mut below = files.iter().filter(|(path, _)| is_below(path, head));
            if below.all(|(_, file)| count_unsafe(file) == 0) {
                found.push(format!("allow {head}"));
            }
        }
    }
    // Report an entry of the table that is not needed.
    for (named, _) in UNSAFE {
        if files.get(*named).is_none_or(|file| count_unsafe(file) == 0) {
            found.push(format!("named {named}"));
        }
    }
    let blocks: usize = files.values().map(count_blocks).sum();
    if blocks > BLOCKS {
        found.push("blocks src".into());
    }
    found
}

/// Returns the arguments for `unsafe` blocks: the text of each comment that begins with `SAFETY:`.
fn arguments(file: &File) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = file.text.lines().map(str::trim).peekable();
    while let Some(line) = lines.next() {
        let Some(text) = line.strip_prefix("// SAFETY:") else {
            continue;
        };
        let mut text = text.to_string();
        while let Some(more) = lines.peek().and_then(|line| line.strip_prefix("//")) {
            text += more;
            lines.next();
        }
        let words: Vec<_> = text.split_whitespace().collect();
        found.push(words.join(" ").trim_end_matches('.').to_lowercase());
    }
    found
}

/// Finds arguments that are repeated at another block, or that only refer to the argument of another block.
fn repeated_arguments(files: &Files) -> Vec<String> {
    let count = |folder: &str| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let files = files.iter().filter(|(path, _)| path.starts_with(folder));
        for argument in files.flat_map(|(_, file)| arguments(file)) {
            *counts.entry(argument).or_default() += 1;
        }
        counts
    };
    let points =
        |argument: &str| argument.starts_with("as ") && !argument.contains([',', ';', ':']) || argument.is_empty();
    let (core, all) = (count("src/lua/"), count("src/"));
    let mut found = Vec::new();
    for (path, file) in files {
        for argument in arguments(file) {
            if path.starts_with("src/lua/") && (core[&argument] > 1 || points(&argument)) {
                found.push(format!("argument {path}: {argument}"));
            } else if !path.starts_with("src/lua/") && (all[&argument] > 1 || points(&argument)) {
                found.push(format!("argument {path}"));
            }
        }
    }
    found
}

/// Finds thread-local data and mutable statics, because VMs move between threads.
fn shared_by_threads(files: &Files) -> Vec<String> {
    let mut found = Vec::new();
    for (path, file) in files {
        let is_listed = THREADS.iter().any(|(listed, _)| listed == path);
        let has = |name: &str| file.tokens.iter().any(|token| token == name);
        if has("thread_local") && !is_listed {
            found.push(format!("thread {path}"));
        }
        let statics = file.tokens.iter().enumerate();
        let statics =
            statics.filter(|(index, token)| *token == "static" && (*index == 0 || file.tokens[index - 1] != "'"));
        for (index, _) in statics {
            let kind = file.tokens[index..].iter().take_while(|token| *token != "=");
            let mut kind = kind.skip(1).take(40);
            if kind.any(|token| matches!(token.as_str(), "mut" | "Rc" | "RefCell" | "UnsafeCell")) && !is_listed {
                found.push(format!("thread {path}"));
            }
        }
    }
    found.dedup();
    found
}

fn foreign_crates(files: &Files) -> Vec<String> {
    let mut found = Vec::new();
    let names = |file: &File, prefix: &str| {
        let inner = format!("{prefix}::");
        let mut paths = file.foreign.iter();
        paths.any(|path| path == prefix || path.starts_with(&inner))
    };
    for (path, file) in files {
        for (name, folders) in CRATES {
            if names(file, name) && !folders.iter().any(|folder| path.starts_with(folder)) {
                found.push(format!("{name} {path}"));
            }
        }
        if path.starts_with("src/codec/") {
            let banned = NOT_IN_CODEC.iter().filter(|banned| names(file, banned));
            found.extend(banned.map(|banned| format!("codec {path} names {banned}")));
        }
    }
    found
}

fn too_long(files: &Files) -> Vec<String> {
    let long = files.iter().filter(|(_, file)| file.lines > FILE_LINES);
    let mut found: Vec<_> = long.map(|(path, _)| format!("long {path}")).collect();
    let sum: usize = files.values().map(|file| file.code_lines).sum();
    if sum > CODE_LINES {
        found.push("lines src".into());
    }
    found
}

/// Returns totals for the log: files, lines, and `unsafe` blocks in `src/lua/` and elsewhere.
pub fn summary(sources: &Sources<'_>) -> String {
    let files = &sources.files;
    let lines: usize = files.values().map(|file| file.lines).sum();
    let code: usize = files.values().map(|file| file.code_lines).sum();
    let (core, others): (Vec<_>, Vec<_>) = files.iter().partition(|(path, _)| path.starts_with("src/lua/"));
    let blocks = |files: &[(&String, &File)]| -> usize { files.iter().map(|(_, file)| count_blocks(file)).sum() };
    format!(
        "{} files, {lines} lines without tests, {code} of them code, unsafe blocks: {} in src/lua, {} elsewhere; {} files in circles",
        files.len(),
        blocks(&core),
        blocks(&others),
        circles(files).len(),
    )
}
