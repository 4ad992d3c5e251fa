//! `lio.http`: what `lualib/lio/web/` and `lualib/lio/http/` stand on.

pub(crate) mod client;
mod fields;
pub(crate) mod files;
pub(crate) mod form;
pub(crate) mod pairs;
pub(crate) mod request;
pub(crate) mod routes;
pub(crate) mod spool;
