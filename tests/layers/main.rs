//! Checks the sources against the rules of `docs/architecture.md`: a file imports only files of its folder and of lower
//! layers, imports form no cycle, `unsafe` is used in the Lua core and in a few named files only, each `unsafe` block
//! has its own argument, and data that a VM's objects share does not depend on a thread.

mod rules;
mod samples;
mod source;

use source::Sources;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the contents of all Rust files below `src/`, by their paths.
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
    let found: Vec<_> = found.into_iter().collect();
    assert!(found.is_empty(), "these lines break the rules:\n{}\n", found.join("\n"));
}

#[test]
fn every_path_in_the_architecture_page_exists() {
    let docs = fs::read_to_string(root().join("docs/architecture.md")).expect("a page");
    let names = docs.split('`').filter(|name| ["src/", "lualib/", "tests/"].iter().any(|root| name.starts_with(root)));
    let missing: Vec<&str> = names.filter(|name| !root().join(name).exists()).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn at_most_ten_files_outside_the_core_may_be_unsafe_and_the_docs_list_them() {
    assert!(rules::UNSAFE.len() <= 10);
    let docs = fs::read_to_string(root().join("docs/architecture.md")).expect("a page");
    for (file, reason) in rules::UNSAFE {
        assert!(
            docs.contains(&format!("| `{file}` | {reason} |")),
            "docs/architecture.md has no row `{file}` | {reason}"
        );
    }
}
