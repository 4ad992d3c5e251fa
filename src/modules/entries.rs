//! The entry points that `require` of a stock Lua finds in the shared object: one for each native module for programs,
//! and one for each embedded Lua file of `lio.*` and `ltask.*`.

use super::Builtin;
use super::ltask::bootstrap::Bootstrap;
use crate::lua::library::{entry_points, open_embedded};
use crate::lua::{Call, Function};

entry_points! {
    Builtin;
    luaopen_lio => super::lio::OPEN,
    luaopen_lio_compress => super::compress::OPEN,
    luaopen_lio_coroutine => super::coroutine::OPEN,
    luaopen_lio_crypto_core => super::crypto::OPEN,
    luaopen_lio_crypto_password => super::crypto::password::OPEN,
    luaopen_lio_file => super::file::OPEN,
    luaopen_lio_http => super::http::OPEN,
    luaopen_lio_json => super::json::OPEN,
    luaopen_lio_shared_writer => super::shared_writer::OPEN,
    luaopen_lio_resolver => super::resolver::OPEN,
    luaopen_lio_signal => super::signal::OPEN,
    luaopen_lio_socket => super::socket::OPEN,
    luaopen_lio_stream => super::stream::OPEN,
    luaopen_lio_task_core => super::task::OPEN,
    luaopen_lio_timer => super::timer::OPEN,
    luaopen_ltask => super::ltask::OPEN,
    luaopen_ltask_bootstrap => Bootstrap::<Builtin>::OPEN,
    luaopen_ltask_core => super::ltask::core::OPEN,
}

include!(concat!(env!("OUT_DIR"), "/entries.rs"));
