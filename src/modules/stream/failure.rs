//! Failures of a connection's calls, with the part of the data that was received or sent before.

use crate::lua::{Failure, Flow, Nil, Pushable, Pusher, Returns};

/// `nil, message, part, code`.
pub(super) struct Failed<P> {
    cause: Cause,
    part: P,
}

/// The cause of a failure.
pub(super) enum Cause {
    Code(Code),
    System(Failure),
}

/// The codes of failures that are not system errors.
#[derive(Clone, Copy)]
pub(super) enum Code {
    Closed,
    Timeout,
    TooLong,
}

impl<P> Failed<P> {
    pub(super) fn new(cause: Cause, part: P) -> Self {
        Failed { cause, part }
    }

    /// Creates a failure with this code, which is also its message.
    pub(super) fn code(code: Code, part: P) -> Self {
        Failed::new(Cause::Code(code), part)
    }

    /// Creates a failure of a system call.
    #[cold]
    pub(super) fn system(failure: Failure, part: P) -> Self {
        Failed::new(Cause::System(failure), part)
    }
}

impl<P: Pushable> Returns for Failed<P> {
    #[cold]
    fn push_results(self, to: Pusher<'_>) -> Flow {
        match self.cause {
            Cause::Code(code) => (Nil, code.text(), self.part, code.text()).push_results(to),
            Cause::System(failure) => {
                let (message, code) = (failure.message(), failure.code());
                drop(failure);
                (Nil, message, self.part, code).push_results(to)
            }
        }
    }
}

impl Code {
    fn text(self) -> &'static str {
        match self {
            Code::Closed => "closed",
            Code::Timeout => "timeout",
            Code::TooLong => "too long",
        }
    }
}
