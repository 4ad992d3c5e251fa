//! The built-in modules, and how Lua finds them: native modules, which the crate lists as a [`Library`], and the Lua
//! files of `lualib/`, which `build.rs` embeds.
//!
//! A searcher finds both kinds. It is inserted after the searcher for `package.path`, so that a user's file takes
//! precedence. An entry point (`luaopen_…`, see `entry_points!`) installs the searcher as well: after one module has
//! been loaded from the shared object on `package.cpath`, the other modules are found.

use super::call::Call;
use super::chunk::Chunk;
use super::fault::Fault;
use super::flow::{Continuation, Next, Outcome, Pushing, results};
use super::function::{Function, guarded};
use super::pusher::Pusher;
use super::registry;
use super::returns::{Argument, Push};
use super::state::{Key, Kind};
use super::step::then;
use mlua::ffi::{self, lua_State};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ffi::{CStr, OsStr, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The crate's built-in modules.
pub(crate) trait Library: 'static {
    /// Native modules, by name.
    const NATIVES: &'static [(&'static str, Function)];
    /// Modules that a service of the scheduler finds without a search for files.
    const SERVICES: &'static [(&'static str, Function)];
}

/// An embedded Lua file.
pub(crate) struct Embedded {
    pub(crate) module: &'static str,
    /// The chunk name, such as `@lio/net.lua`.
    pub(crate) chunk: &'static CStr,
    pub(crate) text: &'static [u8],
}

/// Where the code of an embedded file comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Source,
    /// Precompiled code, which a VM loads faster and with less garbage. A program may start thousands of services.
    Compiled,
}

impl Embedded {
    /// Returns the file as a chunk.
    fn code(&self, form: Form) -> Chunk<'static> {
        match form {
            Form::Compiled => compiled(self.module).map_or_else(|| self.code(Form::Source), compiled_chunk),
            Form::Source => Chunk::Text(self.text, self.chunk),
        }
    }

    /// Returns the file name, which `require` passes to the loader as the second argument and shows in messages.
    fn file_name(&self) -> &'static [u8] {
        &self.chunk.to_bytes()[1..]
    }
}

// `EMBEDDED: &[Embedded]`, sorted by module.
include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// Returns the embedded Lua file of the module `name`.
pub(crate) fn embedded(name: &[u8]) -> Option<&'static Embedded> {
    let found = EMBEDDED.binary_search_by_key(&name, |file| file.module.as_bytes());
    found.ok().map(|index| &EMBEDDED[index])
}

/// Returns whether `name` is the name of an embedded file, such as `lio/net.lua`, as messages show it.
pub(crate) fn is_embedded_file(name: &[u8]) -> bool {
    let module = name.strip_suffix(b".lua").map(|path| path.iter().map(|&byte| if byte == b'/' { b'.' } else { byte }));
    module.is_some_and(|module| embedded(&module.collect::<Vec<u8>>()).is_some())
}

/// Returns the embedded Lua file of a module as a precompiled chunk; `None` if there is no such file, or if there is
/// not enough memory.
pub(crate) fn compiled(module: &str) -> Option<&'static [u8]> {
    let mut guard = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = guard.get_or_insert_default();
    if let Some(&chunk) = known.get(module) {
        return Some(chunk);
    }
    let file = embedded(module.as_bytes())?;
    let chunk: &'static [u8] = compile(file)?.leak();
    known.insert(file.module, chunk);
    Some(chunk)
}

/// Loads the embedded Lua module `name`, for the module's entry point (`luaopen_…`).
pub(crate) fn open_embedded(name: &'static str) -> Result<ChunkCall, Fault> {
    let file = embedded(name.as_bytes()).ok_or_else(|| Fault::message(NOT_BUILT_IN))?;
    Ok(Next::call(2, MODULE, 0).pushing((file.code(Form::Source), name, file.file_name())))
}

/// Loads the embedded Lua module whose name was passed to `require`, from precompiled code.
pub(crate) const OPEN_COMPILED: Function = Function::new(open_compiled);

/// Opens the part of the debug library that lio uses, for programs that do not load that library. The functions in this
/// part do not change anything.
pub(crate) const OPEN_DEBUG: Function = Function::new(|_: &mut Call<'_>| Ok(ReadOnlyDebug));

/// The position of a searcher in `package.searchers`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SearcherPosition {
    /// Before all other searchers.
    First,
    /// After the searcher for `package.path`, so that a shared object on `package.cpath` does not hide a built-in
    /// module.
    BehindPath,
    /// After all other searchers.
    Last,
}

/// Returns a function that makes the library `L` loadable in the VM of a program. Call the returned function after the
/// standard library has been loaded.
pub(crate) const fn install_in_program<L: Library>() -> Function {
    Function::native(|mut to| {
        install::<L>(&mut to, SearcherPosition::BehindPath);
        insert_searcher(&mut to, Function::new(search_before_script::<L>), SearcherPosition::First);
        0
    })
}

/// The folder of the program's script, with a slash at its end, which is the first folder of `package.path`. Set once,
/// by the executable.
static SCRIPT_FOLDER: OnceLock<Vec<u8>> = OnceLock::new();

/// Sets the folder of the program's script. Its files do not replace built-in modules.
#[cfg(feature = "vendored")]
pub(crate) fn set_script_folder(folder: Vec<u8>) {
    let _ = SCRIPT_FOLDER.set(folder);
}

/// Returns a function that makes the library `L` loadable in the VM of a service. The service finds
/// [`Library::SERVICES`] without a search for files.
pub(crate) const fn install_in_service<L: Library>() -> Function {
    Function::native(|mut to| {
        install_searcher(&mut to, Function::new(search_compiled::<L>), SearcherPosition::BehindPath);
        insert_searcher(&mut to, Function::new(search_compiled_before_script::<L>), SearcherPosition::First);
        insert_searcher(&mut to, Function::new(search_for_service::<L>), SearcherPosition::First);
        0
    })
}

/// Makes the library `L` loadable in the VM of a program that embeds Lua with mlua.
pub(crate) fn install_in<L: Library>(lua: &mlua::Lua) -> mlua::Result<()> {
    // SAFETY: mlua calls the closure in protected mode, with a C function's room for values. The closure owns nothing.
    unsafe { lua.exec_raw((), |state| install::<L>(&mut Pusher::new(state), SearcherPosition::BehindPath)) }
}

/// Adds the searcher to `package.searchers`, once per VM, and creates the core's registry entries. Raises an error if
/// the VM has another version of Lua.
pub(super) fn install<L: Library>(to: &mut Pusher<'_>, position: SearcherPosition) {
    install_searcher(to, Function::new(search::<L>), position);
}

fn install_searcher(to: &mut Pusher<'_>, searcher: Function, position: SearcherPosition) {
    to.need(10, None);
    to.check_version(VERSION);
    let known = to.push_registered(INSTALLED.pointer()) == Kind::Boolean;
    to.drop_top();
    if known {
        return;
    }
    to.push_boolean(true);
    to.register(INSTALLED.pointer());
    registry::ensure_store(to);
    insert_searcher(to, searcher, position);
}

/// Whether a service finds the module `name` without a search for files.
pub(crate) fn is_for_services<L: Library>(name: &[u8]) -> bool {
    find(L::SERVICES, name).is_some()
}

/// The body of an entry point: makes the library `L` loadable, and opens one of its modules.
///
/// # Safety
/// Lua calls this in the frame of the entry point.
pub(crate) unsafe fn call_entry_point<L: Library>(state: *mut lua_State, open: Function) -> c_int {
    // SAFETY: by this function's contract, Lua has reserved room for 20 values, as for any C function. This frame owns
    // nothing.
    unsafe {
        guarded(Pusher::new(state), |mut to| {
            install::<L>(&mut to, SearcherPosition::Last);
            0
        });
        (open.0)(state)
    }
}

/// `entry_points! { Library; symbol => open, … }`: defines the symbols that the stock interpreter's `require` finds in
/// the shared object.
macro_rules! entry_points {
    ($library:ty; $($symbol:ident => $open:expr),* $(,)?) => {
        $(
            /// Entry point for `require`.
            ///
            /// # Safety
            /// Only Lua may call this.
            #[allow(unsafe_code)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $symbol(state: *mut ::mlua::ffi::lua_State) -> ::std::ffi::c_int {
                // SAFETY: `require` calls this like any C function.
                unsafe { $crate::lua::library::call_entry_point::<$library>(state, $open) }
            }
        )*
    };
}
pub(crate) use entry_points;

results! {
    /// The result of a searcher.
    pub(crate) enum SearchResult {
        Native((Function, &'static str)),
        File((Chunk<'static>, &'static [u8])),
        Missing(String),
        Unknown(()),
    }
}

/// The searcher for all built-in modules. `search(name)` returns a loader and the file name to pass to it. For an
/// unknown module, returns a message if `name` begins with `lio`, and nothing otherwise.
fn search<L: Library>(call: &mut Call<'_>) -> Result<SearchResult, Fault> {
    search_in_form::<L>(call, Form::Source)
}

/// Like [`search`], for services.
fn search_compiled<L: Library>(call: &mut Call<'_>) -> Result<SearchResult, Fault> {
    search_in_form::<L>(call, Form::Compiled)
}

fn search_in_form<L: Library>(call: &mut Call<'_>, form: Form) -> Result<SearchResult, Fault> {
    let name = call.bytes(1)?;
    if let Some(open) = find(L::NATIVES, name) {
        return Ok(SearchResult::Native((open, ":built-in:")));
    }
    if let Some(file) = embedded(name) {
        return Ok(SearchResult::File((file.code(form), file.file_name())));
    }
    Ok(match name.starts_with(b"lio") {
        true => SearchResult::Missing(format!("no built-in module '{}'", name.escape_ascii())),
        false => SearchResult::Unknown(()),
    })
}

/// The searcher for services, which comes before the searchers for files.
fn search_for_service<L: Library>(call: &mut Call<'_>) -> Result<SearchResult, Fault> {
    Ok(match find(L::SERVICES, call.bytes(1)?) {
        Some(open) => SearchResult::Native((open, ":built-in:")),
        None => SearchResult::Unknown(()),
    })
}

/// The searcher before the searcher for `package.path`: finds a built-in module unless a file on `package.path` outside
/// of the script's folder replaces it. Without it, a folder of the program that is named `skynet`, for example, would
/// hide modules of the library.
fn search_before_script<L: Library>(call: &mut Call<'_>) -> Result<SearchResult, Fault> {
    search_unless_replaced::<L>(call, Form::Source)
}

/// Like [`search_before_script`], for services.
fn search_compiled_before_script<L: Library>(call: &mut Call<'_>) -> Result<SearchResult, Fault> {
    search_unless_replaced::<L>(call, Form::Compiled)
}

fn search_unless_replaced<L: Library>(call: &mut Call<'_>, form: Form) -> Result<SearchResult, Fault> {
    let Some(folder) = SCRIPT_FOLDER.get() else { return Ok(SearchResult::Unknown(())) };
    let name = call.bytes(1)?.to_vec();
    if find(L::NATIVES, &name).is_none() && embedded(&name).is_none() {
        return Ok(SearchResult::Unknown(()));
    }
    let package = call.loaded("package")?;
    let path = call.raw_field(package, "path")?;
    let is_replaced = call.string(path).is_some_and(|path| is_replaced(&name, path, folder));
    call.drop_to(1);
    if is_replaced { Ok(SearchResult::Unknown(())) } else { search_in_form::<L>(call, form) }
}

/// Names of modules, by the `package.path` that was searched for them.
type Searches = FxHashMap<Vec<u8>, FxHashSet<Vec<u8>>>;

/// The names of built-in modules that no file replaces.
static NOT_REPLACED: Mutex<Option<Searches>> = Mutex::new(None);

/// Like [`is_on_path`]. A module that was not found on a path is not searched again on this path, because a program may
/// start thousands of services.
fn is_replaced(name: &[u8], path: &[u8], folder: &[u8]) -> bool {
    let known = || NOT_REPLACED.lock().unwrap_or_else(PoisonError::into_inner);
    if known().as_ref().and_then(|paths| paths.get(path)).is_some_and(|names| names.contains(name)) {
        return false;
    }
    let found = is_on_path(name, path, folder);
    if !found {
        known().get_or_insert_default().entry(path.to_vec()).or_default().insert(name.to_vec());
    }
    found
}

/// Returns whether a file for the module `name` exists on `path`, apart from the templates directly in `folder`.
fn is_on_path(name: &[u8], path: &[u8], folder: &[u8]) -> bool {
    let name: Vec<u8> = name.iter().map(|&byte| if byte == b'.' { b'/' } else { byte }).collect();
    let templates = path.split(|&byte| byte == b';');
    let others = templates.filter(|template| !template.strip_prefix(folder).is_some_and(|rest| rest.starts_with(b"?")));
    others.into_iter().any(|template| {
        let parts: Vec<_> = template.split(|&byte| byte == b'?').collect();
        Path::new(OsStr::from_bytes(&parts.join(&name[..]))).is_file()
    })
}

/// Returns the function that opens the module `name`.
fn find(list: &[(&str, Function)], name: &[u8]) -> Option<Function> {
    let found = list.iter().find(|(module, _)| module.as_bytes() == name);
    found.map(|(_, open)| *open)
}

/// Returns the module, which is the first result of its chunk.
const MODULE: &Continuation = then(|_: &mut Call<'_>, outcome: Outcome| Ok(Argument(outcome.first)));

/// A chunk that is called with the name of the module and the name of its file.
type ChunkCall = Pushing<(Chunk<'static>, &'static str, &'static [u8])>;

const NOT_BUILT_IN: &str = "the module is not built in";

fn open_compiled(call: &mut Call<'_>) -> Result<Pushing<(Chunk<'static>, Argument)>, Fault> {
    let code = compiled(call.utf8(1)?).ok_or_else(|| Fault::message(NOT_BUILT_IN))?;
    Ok(Next::call(1, MODULE, 0).pushing((compiled_chunk(code), Argument(1))))
}

/// Returns precompiled code as a chunk. The code contains the name of its file.
fn compiled_chunk(code: &'static [u8]) -> Chunk<'static> {
    Chunk::Text(code, c"=lio")
}

/// A table with three functions of the debug library.
struct ReadOnlyDebug;

impl Push for ReadOnlyDebug {
    fn push(&mut self, mut to: Pusher<'_>) {
        to.push_function(ffi::luaopen_debug);
        let library = to.count();
        to.call(0, 1);
        to.push_table(0, 3);
        for name in [c"getinfo", c"getmetatable", c"traceback"] {
            to.push_string(name.to_bytes());
            to.push_copy(library + 2);
            to.get_top(library);
            to.set_pair();
        }
        to.replace_with_top(library);
    }
}

/// The precompiled Lua files by module, with line numbers and names for tracebacks. A file is compiled on first use and
/// kept until the process ends.
static COMPILED: Mutex<Option<FxHashMap<&'static str, &'static [u8]>>> = Mutex::new(None);

fn compile(file: &Embedded) -> Option<Vec<u8>> {
    let lua = mlua::Lua::new_with(mlua::StdLib::NONE, mlua::LuaOptions::new()).ok()?;
    let chunk = lua.load(file.text).set_name(file.chunk.to_string_lossy());
    Some(chunk.into_function().ok()?.dump(false))
}

/// `LUA_VERSION_NUM` of the Lua that the crate is built for.
#[cfg(not(feature = "lua55"))]
const VERSION: f64 = 504.0;
#[cfg(feature = "lua55")]
const VERSION: f64 = 505.0;

/// The registry key of a flag, which is true if the VM has the searcher.
static INSTALLED: Key = Key::new(3);

/// Inserts a searcher into `package.searchers`.
fn insert_searcher(to: &mut Pusher<'_>, searcher: Function, position: SearcherPosition) {
    let top = to.count();
    to.push_registry_field(c"_LOADED");
    to.push_string(b"package");
    to.get_top(top + 1);
    to.push_string(b"searchers");
    to.get_top(top + 2);
    // A host program without `package` has its own loader, which must find the built-in modules.
    if to.kind(top + 3) == Kind::Table {
        let count = to.raw_length(top + 3) as i64;
        let position = match position {
            SearcherPosition::First => 1,
            SearcherPosition::BehindPath => (count + 1).min(3),
            SearcherPosition::Last => count + 1,
        };
        for index in (position..=count).rev() {
            to.push_element(top + 3, index);
            to.set_item(index + 1);
        }
        to.push_closure(searcher.0, 0);
        to.set_item(position);
    }
    to.drop_to(top);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_searched_once_for_a_module_that_no_file_replaces() {
        let folder = std::env::temp_dir().join(format!("lio-library-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("lio")).unwrap();
        let path = format!("./?.lua;{}/?.lua", folder.display()).into_bytes();
        assert!(!is_replaced(b"lio.net", &path, b"./"));
        std::fs::write(folder.join("lio/net.lua"), "return {}").unwrap();
        assert!(!is_replaced(b"lio.net", &path, b"./"));
        let other = [&path[..], b";"].concat();
        assert!(is_replaced(b"lio.net", &other, b"./"));
        std::fs::remove_dir_all(&folder).unwrap();
        // A file that replaces the module is searched each time.
        assert!(!is_replaced(b"lio.net", &other, b"./"));
    }
}
