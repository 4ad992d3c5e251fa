//! The rules of the house, read off the sources (page `docs/architecture.md`): imports run downward only and make no
//! circle, `unsafe` is in the Lua core and a few named files, each of its blocks has an argument of its own, and nothing
//! that a VM's objects share hangs on a thread.
//!
//! What is not cured yet is in `expected.txt`, which only shrinks: a line that is not needed any more fails the test as
//! well. `LIO_LAYERS=shrink cargo test --test layers` takes such lines out; a new one would have to be written by hand.

mod rules;
mod samples;
mod source;

use source::Sources;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files below `src/`, by their paths.
fn texts() -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    let mut folders = vec![root().join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root()).expect("below the root");
                let text = fs::read_to_string(&path).expect("a text");
                texts.insert(name.display().to_string(), text);
            }
        }
    }
    texts
}

#[test]
fn the_sources_keep_the_rules() {
    let texts = texts();
    let sources = Sources::read(&texts);
    println!("{}", rules::summary(&sources));
    let found = rules::violations(&sources);
    let list = root().join("tests/layers/expected.txt");
    let text = fs::read_to_string(&list).expect("the list of what is expected");
    let expected: Vec<String> = text.lines().map(String::from).collect();
    let known: BTreeSet<_> = expected.iter().cloned().collect();
    let new: Vec<_> = found.difference(&known).cloned().collect();
    assert!(new.is_empty(), "these break the rules:\n{}\n", new.join("\n"));
    let cured: Vec<_> = known.difference(&found).cloned().collect();
    if !cured.is_empty() && std::env::var("LIO_LAYERS").is_ok_and(|word| word == "shrink") {
        let left: Vec<_> = known.intersection(&found).cloned().collect();
        fs::write(&list, left.join("\n") + "\n").expect("the list is writable");
        return;
    }
    assert!(
        cured.is_empty(),
        "these are cured; take them out of tests/layers/expected.txt (LIO_LAYERS=shrink does):\n{}\n",
        cured.join("\n")
    );
    let sorted: Vec<_> = known.into_iter().collect();
    assert_eq!(expected, sorted, "expected.txt is sorted, each line once");
}

#[test]
fn what_the_map_names_is_there() {
    let docs = fs::read_to_string(root().join("docs/architecture.md")).expect("a page");
    let names = docs.split('`').filter(|name| ["src/", "lualib/", "tests/"].iter().any(|root| name.starts_with(root)));
    let missing: Vec<&str> = names.filter(|name| !root().join(name).exists()).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn at_most_ten_files_outside_the_core_may_be_unsafe_and_the_docs_name_them() {
    assert!(rules::UNSAFE.len() <= 10);
    let docs = fs::read_to_string(root().join("docs/architecture.md")).expect("a page");
    for (file, reason) in rules::UNSAFE {
        assert!(
            docs.contains(&format!("| `{file}` | {reason} |")),
            "docs/architecture.md has no row `{file}` | {reason}"
        );
    }
}
