//! Failures that are no errors, as Lua sees them: `nil, message, code`.
//!
//! The message names the call and the system's text, the code is one short word that a program can test.

use super::flow::{Flow, Returns};
use super::returns::{Nil, Pusher};
use rustix::io::Errno;
use std::io;

/// What a call of the system, or one of ours, failed for. It takes little room where it is one of several results, since
/// most calls do not fail.
#[derive(Debug)]
pub(crate) struct Failure(Box<(&'static str, Cause)>);

#[derive(Debug)]
enum Cause {
    System(Errno),
    /// A message and its code.
    Ours(&'static str, &'static str),
}

impl Failure {
    /// What the system said.
    #[cold]
    pub(crate) fn io(call: &'static str, error: &io::Error) -> Self {
        let cause = match Errno::from_io_error(error) {
            Some(errno) => Cause::System(errno),
            None => Cause::Ours("unexpected failure", "failed"),
        };
        Failure(Box::new((call, cause)))
    }

    /// A failure that is ours.
    #[cold]
    pub(crate) fn word(call: &'static str, message: &'static str, code: &'static str) -> Self {
        Failure(Box::new((call, Cause::Ours(message, code))))
    }

    /// `call: what happened`.
    pub(crate) fn message(&self) -> String {
        let (call, cause) = &*self.0;
        match cause {
            Cause::System(errno) => format!("{call}: {}", io::Error::from(*errno)),
            Cause::Ours(message, _) => format!("{call}: {message}"),
        }
    }

    /// The short word for programs.
    pub(crate) fn code(&self) -> &'static str {
        match self.0.1 {
            Cause::System(errno) => code_of(errno),
            Cause::Ours(_, code) => code,
        }
    }
}

impl Returns for Failure {
    #[cold]
    fn give(self, to: Pusher<'_>) -> Flow {
        let results = (Nil, self.message(), self.code());
        drop(self);
        results.give(to)
    }
}

impl<R: Returns> Returns for Result<R, Failure> {
    #[inline(always)]
    fn give(self, to: Pusher<'_>) -> Flow {
        match self {
            Ok(results) => results.give(to),
            Err(failure) => failure.give(to),
        }
    }
}

/// The short word for an errno: the common ones in English, the rest by their C names.
pub(crate) fn code_of(errno: Errno) -> &'static str {
    match errno {
        Errno::CONNREFUSED => "refused",
        Errno::CONNRESET => "reset",
        Errno::PIPE | Errno::NOTCONN => "closed",
        Errno::TIMEDOUT => "timeout",
        Errno::MSGSIZE => "too long",
        Errno::ADDRINUSE => "in use",
        Errno::ADDRNOTAVAIL => "not available",
        Errno::ACCESS | Errno::PERM => "denied",
        Errno::NOENT => "not found",
        Errno::HOSTUNREACH | Errno::NETUNREACH => "unreachable",
        Errno::AGAIN => "would block",
        Errno::EXIST => "exists",
        Errno::MFILE => "EMFILE",
        Errno::NFILE => "ENFILE",
        Errno::NOBUFS => "ENOBUFS",
        Errno::NOMEM => "ENOMEM",
        Errno::BADF => "EBADF",
        Errno::INVAL => "EINVAL",
        Errno::ISCONN => "EISCONN",
        Errno::ALREADY => "EALREADY",
        Errno::AFNOSUPPORT => "EAFNOSUPPORT",
        Errno::NOTSOCK => "ENOTSOCK",
        Errno::NOPROTOOPT => "ENOPROTOOPT",
        Errno::OPNOTSUPP => "EOPNOTSUPP",
        Errno::DESTADDRREQ => "EDESTADDRREQ",
        Errno::CONNABORTED => "ECONNABORTED",
        Errno::NOTDIR => "ENOTDIR",
        _ => "failed",
    }
}
