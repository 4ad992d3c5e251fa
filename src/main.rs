//! The `lio` executable; see `cli`.

fn main() -> std::process::ExitCode {
    lio::cli::main()
}
