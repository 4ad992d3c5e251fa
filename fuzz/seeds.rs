//! The seeds of the fuzzers: the first inputs, which the targets make themselves.

pub use lio::fuzzing;
use lio::fuzzing::Target;
use std::fs;
use std::path::Path;

/// Defines the fuzzer of a target of `lio::fuzzing`.
#[macro_export]
macro_rules! target {
    ($target:ident) => {
        ::libfuzzer_sys::fuzz_target!(
            init: $crate::write(&$crate::fuzzing::$target),
            |data: &[u8]| ($crate::fuzzing::$target.run)(data)
        );
    };
}

/// Writes the seeds of a target to its corpus, which the fuzzer reads afterwards.
pub fn write(target: &Target) {
    // The executable ignores SIGPIPE, too: writing to a closed pipe is an error, and does not end the process.
    // SAFETY: no other thread runs yet, and ignoring a signal needs no handler.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    fs::create_dir_all(&folder).expect("a writable folder");
    for (number, seed) in (target.seeds)().iter().enumerate() {
        fs::write(folder.join(format!("seed-{number:02}")), seed).expect("a writable folder");
    }
}
