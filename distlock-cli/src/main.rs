//! The command `distlock`, with the stores that come with the library.

fn main() -> std::process::ExitCode {
    distlock_cli::main()
}
