//! A Rust program that creates a Lua VM and serves HTTP from Lua. `cargo run --release --example embed`, then
//! `curl http://127.0.0.1:8080/add/1/2`. Another port: `cargo run --release --example embed -- 8081`.
//!
//! `lio::install` makes every module of lio loadable in the VM. The program uses mlua for everything else, such as the
//! Rust function that the handler calls and the limit of the VM's memory.

use mlua::{Lua, Result};

const SCRIPT: &str = r#"
    local port, add, is_served = ...
    local loop = require "lio.loop"
    local app = require "lio.webserver".new()

    app:get("/", function() return "Hello from Lua in Rust!\n" end)
    app:get("/add/:a<%d+>/:b<%d+>", function(req)
      return { sum = add(req.params.a, req.params.b) }
    end)

    loop.run(function()
      local server = assert(app:listen(port))
      is_served(server.url)
    end)
"#;

/// Serves until SIGINT or SIGTERM ends the loop. Calls `is_served` with the address.
pub fn serve(port: u16, is_served: impl Fn(String) + 'static) -> Result<()> {
    let lua = Lua::new();
    lua.set_memory_limit(64 << 20)?;
    lio::install(&lua)?;
    let add = lua.create_function(|_, (a, b): (i64, i64)| Ok(a.checked_add(b)))?;
    let is_served = lua.create_function(move |_, url: String| {
        is_served(url);
        Ok(())
    })?;
    lua.load(SCRIPT).set_name("=embed").call((port, add, is_served))
}

#[allow(dead_code)] // A test includes this file and calls `serve` itself.
fn main() -> Result<()> {
    let port = std::env::args().nth(1).map(|text| text.parse().expect("the port must be a number"));
    serve(port.unwrap_or(8080), |url| println!("serving {url}"))
}
