//! What `require` of a stock Lua finds in the shared object: an entry point for each native module that programs ask
//! for, and for each embedded Lua file of `lio.*` and `ltask.*`.

use super::{Builtin, native};
use crate::lua::library::{entry_points, open_embedded};
use crate::lua::{Call, Function};

entry_points! {
    Builtin;
    luaopen_lio => const { native("lio") },
    luaopen_lio_compress => const { native("lio.compress") },
    luaopen_lio_coroutine => const { native("lio.coroutine") },
    luaopen_lio_file => const { native("lio.file") },
    luaopen_lio_http => const { native("lio.http") },
    luaopen_lio_json => const { native("lio.json") },
    luaopen_lio_outlet => const { native("lio.outlet") },
    luaopen_lio_resolver => const { native("lio.resolver") },
    luaopen_lio_signal => const { native("lio.signal") },
    luaopen_lio_socket => const { native("lio.socket") },
    luaopen_lio_stream => const { native("lio.stream") },
    luaopen_lio_task_core => const { native("lio.task.core") },
    luaopen_lio_timer => const { native("lio.timer") },
    luaopen_ltask => const { native("ltask") },
    luaopen_ltask_bootstrap => const { native("ltask.bootstrap") },
    luaopen_ltask_core => const { native("ltask.core") },
}

include!(concat!(env!("OUT_DIR"), "/entries.rs"));
