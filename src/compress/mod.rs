//! `lio.compress`: the content codings of the codec for Lua. The middleware of the web server and the HTTP client use them.

pub(crate) mod lua;
