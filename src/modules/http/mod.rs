//! `lio.http`: what `lualib/lio/web/` and `lualib/lio/http/` stand on.

pub(crate) mod client;
pub(crate) mod form;
pub(crate) mod routes;
pub(crate) mod spool;
