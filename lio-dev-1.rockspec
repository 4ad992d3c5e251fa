-- `luarocks make lio-dev-1.rockspec --local` in a checkout builds the shared object with cargo and installs it as the
-- module "lio". The Lua files are embedded in the shared object. If the default of LuaRocks is another Lua version (5.1
-- in Debian), add `--lua-version 5.4`.
rockspec_format = "3.0"
package = "lio"
version = "dev-1"
source = {
  url = ".",
}
description = {
  summary = "An event loop, a networking library and HTTP servers",
  detailed = [[
    A level-triggered selector and non-blocking sockets in Rust, a networking library for coroutines and
    a web server in Lua on top of them.]],
  license = "MIT",
}
supported_platforms = { "unix" }
dependencies = {
  "lua >= 5.4, < 5.6",
}
build = {
  type = "make",
  build_target = "rock",
  build_variables = { LUA = "$(LUA)" },
  install_pass = false,
  install = {
    lib = { lio = "build/rock/lio.so" },
  },
}
