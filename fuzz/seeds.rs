//! The seeds of the fuzzers: the first inputs, which the targets make themselves.

use lio::fuzzing::Target;
use std::fs;
use std::path::Path;

/// Writes the seeds of a target to its corpus, which the fuzzer reads afterwards.
pub fn write(target: &Target) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    fs::create_dir_all(&folder).expect("a writable folder");
    for (number, seed) in (target.seeds)().iter().enumerate() {
        fs::write(folder.join(format!("seed-{number:02}")), seed).expect("a writable folder");
    }
}
