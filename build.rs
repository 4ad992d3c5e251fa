//! Embeds the Lua files of `lualib/`, except those of `lualib/meta/`. Generates a table of the files for
//! `src/lua/library.rs`. For `src/modules/entries.rs`, generates an exported `luaopen_` function for each `lio.*` and
//! `ltask.*` module, so that a stock Lua can load these modules with only `build/lio.so` on `package.cpath`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=lualib");
    println!("cargo:rerun-if-changed=build.rs");
    // C modules that the executable loads link to the Lua API in the executable.
    println!("cargo:rustc-link-arg-bins=-rdynamic");
    println!("cargo:rustc-env=LIO_MULTIARCH={}", multiarch());
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("lualib");
    let mut files = Vec::new();
    collect(&root, &root, &mut files);
    // The table must be sorted for the binary search.
    files.sort();
    let mut code = String::from("static EMBEDDED: &[Embedded] = &[\n");
    let mut entries = String::from("entry_points! {\n    Builtin;\n");
    for (module, path) in &files {
        let shown = path.strip_prefix(&root).expect("below the root").display();
        let _ = writeln!(
            code,
            "    Embedded {{ module: {module:?}, chunk: c\"@{shown}\", text: include_bytes!({path:?}) }},"
        );
        if module.starts_with("lio.") || module.starts_with("ltask.") {
            let symbol = module.replace('.', "_");
            let _ = writeln!(
                entries,
                "    luaopen_{symbol} => Function::new(|_: &mut Call<'_>| open_embedded({module:?})),"
            );
        }
    }
    code.push_str("];\n");
    entries.push_str("}\n");
    let out = PathBuf::from(env::var("OUT_DIR").expect("set by cargo"));
    fs::write(out.join("embedded.rs"), code).expect("the output folder is writable");
    fs::write(out.join("entries.rs"), entries).expect("the output folder is writable");
}

/// Returns the name that Debian gives the target's architecture, such as `x86_64-linux-gnu`. The executable searches for
/// C modules in the folder with this name.
fn multiarch() -> String {
    let target = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    let is_little = target("ENDIAN") == "little";
    let architecture = match target("ARCH").as_str() {
        "x86" => "i386".to_owned(),
        "powerpc64" if is_little => "powerpc64le".to_owned(),
        "mips64" if is_little => "mips64el".to_owned(),
        other => other.to_owned(),
    };
    format!("{architecture}-{}-{}{}", target("OS"), target("ENV"), target("ABI"))
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<(String, PathBuf)>) {
    let entries = fs::read_dir(folder).expect("lualib is readable");
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "meta") {
                collect(root, &path, files);
            }
            continue;
        }
        if path.extension().is_some_and(|extension| extension == "lua") {
            let relative = path.strip_prefix(root).expect("below the root");
            let module = relative.with_extension("").display().to_string();
            files.push((module.replace('/', "."), path));
        }
    }
}
