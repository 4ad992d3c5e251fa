//! Files for raw code that is not converted yet. // bridge

use super::Fault;
use crate::file::Refusal;

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Fault {
        let word = |message, code| Fault::word("open", message, code);
        match refusal {
            Refusal::NotAFile => word("not a regular file", "not a file"),
            Refusal::HasNul => word("the path has a NUL", "not found"),
            Refusal::NameTooLong => word("the name is too long", "not found"),
            Refusal::TooManyLinks => word("too many links", "not found"),
            Refusal::Outside => word("the path leaves the folder", "outside"),
            Refusal::Closed => word("the folder is closed", "closed"),
            Refusal::System(error) => Fault::io("open", &error),
        }
    }
}
