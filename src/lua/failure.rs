//! Failures that are not errors. Lua gets them as `nil, message, code`.
//!
//! The message consists of the call's name and a description of the failure. The code is a short word that a program
//! can test.

use super::flow::{Flow, Returns};
use super::returns::{Nil, Pusher};
use rustix::io::Errno;
use std::io;

/// The failure of a system call, or of an operation of this library. The contents are boxed, because most calls succeed
/// and their results should be small.
#[derive(Debug)]
pub(crate) struct Failure(Box<(&'static str, Cause)>);

/// The cause of a failure.
#[derive(Debug)]
enum Cause {
    System(Errno),
    /// A message and its code.
    Library(&'static str, &'static str),
    /// A message that was composed, and its code.
    Composed(Box<str>, &'static str),
}

impl Failure {
    /// Returns the failure of the system call `call`.
    #[cold]
    pub(crate) fn io(call: &'static str, error: &io::Error) -> Self {
        let cause = match Errno::from_io_error(error) {
            Some(errno) => Cause::System(errno),
            None => Cause::Library("unexpected failure", "failed"),
        };
        Failure(Box::new((call, cause)))
    }

    /// Returns a failure that the library itself reports.
    #[cold]
    pub(crate) fn new(call: &'static str, message: &'static str, code: &'static str) -> Self {
        Failure(Box::new((call, Cause::Library(message, code))))
    }

    /// Like [`Failure::new`], for a message that was composed.
    #[cold]
    pub(crate) fn composed(call: &'static str, message: impl Into<Box<str>>, code: &'static str) -> Self {
        Failure(Box::new((call, Cause::Composed(message.into(), code))))
    }

    /// Returns the message, `call: what happened`.
    pub(crate) fn message(&self) -> String {
        let (call, cause) = &*self.0;
        match cause {
            Cause::System(errno) => format!("{call}: {}", io::Error::from(*errno)),
            Cause::Library(message, _) => format!("{call}: {message}"),
            Cause::Composed(message, _) => format!("{call}: {message}"),
        }
    }

    /// Returns the code, a short word for programs.
    pub(crate) fn code(&self) -> &'static str {
        match self.0.1 {
            Cause::System(errno) => code_of(errno),
            Cause::Library(_, code) | Cause::Composed(_, code) => code,
        }
    }
}

impl Returns for Failure {
    #[cold]
    fn push_results(self, to: Pusher<'_>) -> Flow {
        let results = (Nil, self.message(), self.code());
        drop(self);
        results.push_results(to)
    }
}

impl<R: Returns> Returns for Result<R, Failure> {
    #[inline(always)]
    fn push_results(self, to: Pusher<'_>) -> Flow {
        match self {
            Ok(results) => results.push_results(to),
            Err(failure) => failure.push_results(to),
        }
    }
}

/// Returns the code for an errno: English words for common errors, the C name for some other errors, and `failed` for
/// all others.
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
