//! Where `require` searches in the executable: `package.path` and `package.cpath`.
//!
//! The folder of the script comes first, then the value that Lua takes from the environment or its defaults, then the
//! folders of Debian's packages. The script's folder does not replace built-in modules. Services get the paths of the program that starts them (`lualib/ltask/start/config.lua`).

use crate::lua::library::set_script_folder;
use crate::lua::{Argument, Call, Fault, StoredInTable};
use std::env;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

#[cfg(not(feature = "lua55"))]
const LUA: &str = "5.4";
#[cfg(feature = "lua55")]
const LUA: &str = "5.5";

/// The name that Debian gives this architecture, such as `x86_64-linux-gnu` (build.rs).
const MULTIARCH: &str = env!("LIO_MULTIARCH");

/// Extends `package.path` and `package.cpath` of a program, which runs the file `script`, if there is one.
pub(super) fn extend(call: &mut Call<'_>, script: Option<&CStr>) -> Result<(), Fault> {
    let folder = script.and_then(folder_of);
    if let Some(folder) = &folder {
        set_script_folder(folder.clone());
    }
    let version = LUA.replace('.', "_");
    let lua = format!("/usr/share/lua/{LUA}/");
    extend_one(call, "path", &format!("LUA_PATH_{version}"), &folder, &["?.lua", "?/init.lua"], &[lua])?;
    let c = [format!("/usr/lib/{MULTIARCH}/lua/{LUA}/"), format!("/usr/lib/lua/{LUA}/")];
    extend_one(call, "cpath", &format!("LUA_CPATH_{version}"), &folder, &["?.so"], &c)
}

/// Extends `package[field]`. `variable`: the environment variable of this Lua version for the field; `folder`: the
/// script's folder; `templates`: what is appended to a folder; `system`: folders of the system.
fn extend_one(
    call: &mut Call<'_>, field: &'static str, variable: &str, folder: &Option<Vec<u8>>, templates: &[&str],
    system: &[String],
) -> Result<(), Fault> {
    let package = call.loaded("package")?;
    let known = call.raw_field(package, field)?;
    let known = call.string(known).unwrap_or_default().to_vec();
    let in_folder = |folder: &[u8]| -> Vec<Vec<u8>> {
        templates.iter().map(|template| [folder, template.as_bytes()].concat()).collect()
    };
    let mut parts = folder.as_deref().map(in_folder).unwrap_or_default();
    if !known.is_empty() {
        parts.push(known);
    }
    if has_default(variable) {
        let present = system.iter().filter(|folder| Path::new(folder).is_dir());
        parts.extend(present.flat_map(|folder| in_folder(folder.as_bytes())));
    }
    let value = call.create(parts.join(&b';'))?;
    let key = call.create(field)?;
    call.create(StoredInTable::new(package, key, Argument(value)))?;
    call.drop_to(0);
    Ok(())
}

/// Whether a path contains Lua's default: the environment does not set it, or sets it with `;;`.
fn has_default(variable: &str) -> bool {
    let general = &variable[..variable.len() - "_5_4".len()];
    let value = env::var_os(variable).or_else(|| env::var_os(general));
    value.is_none_or(|value| value.as_bytes().windows(2).any(|pair| pair == b";;"))
}

/// Returns the folder of a script, with a slash at its end. If the script is a symbolic link, it is the folder of the
/// link's target. Returns `None` for a folder that cannot be part of a path, because its name has a `;` or a `?`.
fn folder_of(script: &CStr) -> Option<Vec<u8>> {
    let path = Path::new(OsStr::from_bytes(script.to_bytes()));
    let target: Option<PathBuf> = if path.is_symlink() { path.canonicalize().ok() } else { None };
    let folder = target.as_deref().unwrap_or(path).parent()?.as_os_str().as_bytes();
    let folder = match folder {
        b"" => b"./".to_vec(),
        b"/" => b"/".to_vec(),
        folder => [folder, b"/"].concat(),
    };
    (!folder.iter().any(|byte| b";?".contains(byte))).then_some(folder)
}

#[cfg(test)]
mod tests {
    use super::folder_of;

    #[test]
    fn the_folder_of_a_script_ends_with_a_slash_and_can_be_part_of_a_path() {
        let of = |path| folder_of(path).map(|folder| String::from_utf8(folder).unwrap());
        assert_eq!(of(c"main.lua").as_deref(), Some("./"));
        assert_eq!(of(c"src/main.lua").as_deref(), Some("src/"));
        assert_eq!(of(c"/main.lua").as_deref(), Some("/"));
        assert_eq!(of(c"a;b/main.lua"), None);
        assert_eq!(of(c"a?/main.lua"), None);
    }
}
