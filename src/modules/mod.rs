//! The native modules that `require` loads. Each module is a file or a folder with thin bindings. This file lists the
//! modules.

#[cfg(feature = "alloc_failures")]
mod alloc_failures;
pub(crate) mod compress;
pub(crate) mod coroutine;
pub(crate) mod crypto;
pub(crate) mod debug;
pub(crate) mod descriptor;
pub(crate) mod entries;
pub(crate) mod file;
pub(crate) mod http;
pub(crate) mod json;
#[cfg(feature = "vendored")]
mod line_editor;
pub(crate) mod lio;
pub(crate) mod ltask;
pub(crate) mod memory;
pub(crate) mod pack;
#[cfg(feature = "panics")]
mod panics;
pub(crate) mod resolver;
pub(crate) mod run_time;
pub(crate) mod selector;
pub(crate) mod shared_writer;
pub(crate) mod signal;
pub(crate) mod skynet;
pub(crate) mod socket;
pub(crate) mod stream;
pub(crate) mod supervisor;
pub(crate) mod task;
pub(crate) mod template;
pub(crate) mod timer;
pub(crate) mod tls;
pub(crate) mod traceback;
mod value_error;
pub(crate) mod waker;
pub(crate) mod websocket;

use self::ltask::bootstrap::{Bootstrap, Environment};
use crate::ltask::system::Preparation;
use crate::lua::library::{self, Library, OPEN_COMPILED, OPEN_DEBUG};
use crate::lua::{Function, OPEN_LIBRARIES};

/// The library of all built-in modules.
pub(crate) struct Builtin;

impl Library for Builtin {
    const NATIVES: &'static [(&'static str, Function)] = &[
        ("lio", self::lio::OPEN),
        #[cfg(feature = "alloc_failures")]
        ("lio.alloc_failures", alloc_failures::open::<Builtin>()),
        ("lio.compress", compress::OPEN),
        ("lio.coroutine", coroutine::OPEN),
        ("lio.crypto.core", crypto::OPEN),
        ("lio.crypto.password", crypto::password::OPEN),
        ("lio.debug", OPEN_DEBUG),
        ("lio.file", file::OPEN),
        ("lio.http", http::OPEN),
        ("lio.json", json::OPEN),
        #[cfg(feature = "vendored")]
        ("lio.line_editor", line_editor::OPEN),
        ("lio.memory", memory::OPEN),
        ("lio.shared_writer", shared_writer::OPEN),
        #[cfg(feature = "panics")]
        ("lio.panics", panics::open::<Builtin>()),
        ("lio.resolver", resolver::OPEN),
        ("lio.run_time", run_time::OPEN),
        ("lio.signal", signal::OPEN),
        ("lio.socket", socket::OPEN),
        ("lio.stream", stream::OPEN),
        ("lio.supervisor", supervisor::OPEN),
        ("lio.task.core", task::OPEN),
        ("lio.template.core", template::OPEN),
        ("lio.timer", timer::OPEN),
        ("lio.tls.core", tls::OPEN),
        ("lio.traceback", traceback::OPEN),
        ("lio.websocket.core", websocket::OPEN),
        ("ltask", ltask::OPEN),
        ("ltask.bootstrap", Bootstrap::<Builtin>::OPEN),
        ("ltask.core", ltask::core::OPEN),
        ("ltask.exclusive", ltask::exclusive::OPEN),
        ("ltask.root", ltask::root::OPEN),
        ("md5", skynet::md5::OPEN),
        ("skynet.crypt.core", skynet::crypt::OPEN),
        ("skynet.frames", skynet::frames::OPEN),
        ("skynet.sockets", skynet::sockets::OPEN),
    ];
    const SERVICES: &'static [(&'static str, Function)] = &[
        ("ltask", ltask::OPEN),
        ("ltask.core", ltask::core::OPEN),
        ("ltask.root", ltask::root::OPEN),
        ("ltask.exclusive", ltask::exclusive::OPEN),
        ("lio.task", task::OPEN_LAZY),
        ("ltask.callbacks", OPEN_COMPILED),
        ("ltask.concurrent", OPEN_COMPILED),
        ("ltask.coroutines", OPEN_COMPILED),
        ("ltask.errors", OPEN_COMPILED),
        ("ltask.log", OPEN_COMPILED),
        ("ltask.main_thread", OPEN_COMPILED),
        ("ltask.require", OPEN_COMPILED),
        ("ltask.root.names", OPEN_COMPILED),
        ("ltask.root.services", OPEN_COMPILED),
        ("ltask.root_client", OPEN_COMPILED),
        ("ltask.sessions", OPEN_COMPILED),
        ("skynet.boot", OPEN_COMPILED),
        ("skynet.callbacks", OPEN_COMPILED),
        ("skynet.clock", OPEN_COMPILED),
        ("skynet.debug", OPEN_COMPILED),
        ("skynet.inspect", OPEN_COMPILED),
        ("skynet.lifecycle", OPEN_COMPILED),
        ("skynet.message", OPEN_COMPILED),
        ("skynet.names", OPEN_COMPILED),
        ("skynet.packed_message", OPEN_COMPILED),
        ("skynet.protocol", OPEN_COMPILED),
        ("skynet.redirect", OPEN_COMPILED),
        ("skynet.request", OPEN_COMPILED),
        ("skynet.response", OPEN_COMPILED),
        ("skynet.task", OPEN_COMPILED),
        ("skynet.trace", OPEN_COMPILED),
        ("skynet.unhandled", OPEN_COMPILED),
    ];
}

/// The functions that prepare the VM of a program, in the order in which they are called.
pub(crate) const PROGRAM: &[Function] = &[
    OPEN_LIBRARIES,
    library::install_in_program::<Builtin>(),
    coroutine::INSTALL,
    Function::new(debug::install),
    supervisor::INSTALL,
];

impl Environment for Builtin {
    const PREPARATION: Preparation = Preparation {
        functions: &[OPEN_LIBRARIES, library::install_in_service::<Builtin>(), supervisor::INSTALL],
        is_built_in: library::is_for_services::<Builtin>,
    };
}
