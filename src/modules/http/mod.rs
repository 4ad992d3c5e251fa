//! `lio.http`: what `lualib/lio/web/` and `lualib/lio/http/` stand on.

pub(crate) mod spool;
