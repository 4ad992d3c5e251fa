//! Tests of the codec, one file per topic; each test is one rule, named for the behaviour.

mod conditional;
mod multipart;
mod range;
mod uri;
