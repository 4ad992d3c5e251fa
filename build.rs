//! Embeds the Lua files of `lualib/`: one table of sources, and for each `lio.*` and `ltask.*` module an
//! exported `luaopen_` function, so that `build/lio.so` alone on `package.cpath` is enough.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=lualib");
    println!("cargo:rerun-if-changed=build.rs");
    // C modules that the executable loads find Lua's API in it; Rust's thread-locals do not survive an
    // unload of the shared object.
    println!("cargo:rustc-link-arg-bins=-rdynamic");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-link-arg-cdylib=-Wl,-z,nodelete");
    }
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("lualib");
    let mut files = Vec::new();
    collect(&root, &root, &mut files);
    files.sort();
    let mut code = String::from("pub(crate) static SOURCES: &[(&str, &str, &[u8])] = &[\n");
    for (module, path) in &files {
        let shown = path.strip_prefix(&root).expect("below the root").display();
        let _ = writeln!(
            code,
            "    ({module:?}, \"@{shown}\", include_bytes!({path:?})),"
        );
    }
    code.push_str("];\n");
    // `ltask.root` is the name of a native module as well, which is the one that can be required.
    let entries = files.iter().filter(|(module, _)| {
        module.starts_with("lio.") || module.starts_with("ltask.") && module != "ltask.root"
    });
    for (module, _) in entries {
        let symbol = module.replace('.', "_");
        let _ = write!(
            code,
            "\n/// Entry point of `require {module:?}`.\n\
             #[unsafe(no_mangle)]\n\
             pub unsafe extern \"C-unwind\" fn luaopen_{symbol}(state: *mut lua_State) -> c_int {{\n    \
             // SAFETY: called by Lua's `require`.\n    \
             unsafe {{ crate::function!(|state| open_embedded(state, {module:?})).run(state) }}\n}}\n"
        );
    }
    let out = PathBuf::from(env::var("OUT_DIR").expect("set by cargo")).join("embedded.rs");
    fs::write(out, code).expect("the output folder is writable");
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
