//! Native parts of skynet's modules.
//!
//! | file | module |
//! |---|---|
//! | [`crypt`] | `skynet.crypt.core`, for `skynet.crypt` |
//! | [`frames`] | `skynet.frames`, for `skynet.netpack` |
//! | [`md5`] | `md5` |
//! | [`sockets`] | `skynet.sockets`, for `skynet.socket` and `skynet.socketdriver` |

pub(crate) mod crypt;
pub(crate) mod frames;
pub(crate) mod md5;
pub(crate) mod sockets;
