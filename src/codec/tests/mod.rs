//! Tests of the codecs, one file per topic.

mod conditional;
mod multipart;
mod range;
mod uri;
