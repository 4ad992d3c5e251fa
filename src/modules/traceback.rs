//! `lio.traceback`: shortens the tracebacks that the executable prints. The frames of the library do not help the user
//! who has passed a wrong option.

use crate::lua::library::is_embedded_file;
use crate::lua::{Call, Fault, Function, Module, functions};

const HEADING: &str = "stack traceback:";
const TAIL_CALLS: &str = "\t(...tail calls...)";

/// Removes the frames of embedded files from the tracebacks in an error message, and the C functions between them and
/// at the bottom. If the library itself has raised the error, nothing is removed: its position is then in the library.
/// Nothing is removed either with `LIO_TRACEBACK=full` in the environment.
pub(crate) fn shorten(message: &str) -> String {
    let is_full = std::env::var_os("LIO_TRACEBACK").is_some_and(|value| value == "full");
    if is_full || is_of_library(message) { message.to_owned() } else { without_library(message) }
}

/// Returns whether a position, such as `lio/net.lua:12:`, is in an embedded file.
fn is_of_library(position: &str) -> bool {
    position.split_once(':').is_some_and(|(file, _)| is_embedded_file(file.as_bytes()))
}

fn is_of_c(frame: &str) -> bool {
    frame.starts_with("\t[C]: ")
}

fn without_library(message: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut lines = message.lines().peekable();
    while let Some(line) = lines.next() {
        kept.push(line);
        if line != HEADING {
            continue;
        }
        let mut frames = Vec::new();
        while let Some(frame) = lines.next_if(|next| next.starts_with('\t')) {
            frames.push(frame);
        }
        let before = kept.len();
        kept.extend(frames_of_program(&frames));
        if kept.len() == before {
            kept.pop();
        }
    }
    kept.join("\n")
}

/// Returns the frames of a traceback that belong to the program.
fn frames_of_program<'m>(frames: &[&'m str]) -> Vec<&'m str> {
    let is_library = |frame: &&str| frame.strip_prefix('\t').is_some_and(is_of_library);
    let mut kept = Vec::new();
    let mut is_kept = true;
    for (index, frame) in frames.iter().enumerate() {
        let after = frames[index + 1..].iter().find(|frame| !is_of_c(frame));
        is_kept = match *frame {
            // The line belongs to the frame above it.
            TAIL_CALLS => is_kept,
            c if is_of_c(c) => is_kept && after.is_some_and(|after| !is_library(after)),
            _ => !is_library(frame),
        };
        if is_kept {
            kept.push(*frame);
        }
    }
    kept
}

/// `traceback.shorten(message)`: returns an error message without the frames of the library.
fn shorten_message(call: &mut Call<'_>) -> Result<String, Fault> {
    Ok(shorten(&String::from_utf8_lossy(call.bytes(1)?)))
}

/// Opens `lio.traceback`.
pub(crate) const OPEN: Function =
    Function::new(|_: &mut Call<'_>| Ok(Module(functions! { shorten = shorten_message })));

#[cfg(test)]
mod tests {
    use super::without_library;

    #[test]
    fn frames_of_the_library_are_removed_with_the_c_functions_between_them() {
        let message = "x.lua:1: net.connect: option 'timout' is unknown\nstack traceback:\n\t[C]: in function 'error'\n\
            \tlio/misuse.lua:53: in function 'lio.misuse.raise'\n\t(...tail calls...)\n\
            \tlio/net/connect.lua:60: in function <lio/net/connect.lua:56>\n\tx.lua:1: in local 'f'\n\
            \t(...tail calls...)\n\t[C]: in function 'xpcall'\n\tlio/loop.lua:252: in function <lio/loop.lua:251>\n\
            stack traceback:\n\t[C]: in function 'error'\n\tlio/loop.lua:274: in function 'lio.loop.run'\n\
            \tx.lua:2: in main chunk\n\t[C]: in ?";
        let short = "x.lua:1: net.connect: option 'timout' is unknown\nstack traceback:\n\tx.lua:1: in local 'f'\n\
            \t(...tail calls...)\nstack traceback:\n\tx.lua:2: in main chunk";
        assert_eq!(without_library(message), short);
    }

    #[test]
    fn c_functions_that_the_program_calls_remain() {
        let message =
            "x.lua:1: boom\nstack traceback:\n\t[C]: in function 'error'\n\tx.lua:1: in main chunk\n\t[C]: in ?";
        let short = "x.lua:1: boom\nstack traceback:\n\t[C]: in function 'error'\n\tx.lua:1: in main chunk";
        assert_eq!(without_library(message), short);
    }

    #[test]
    fn c_functions_above_the_library_are_removed_together() {
        let message = "boom\nstack traceback:\n\t[C]: in function 'ltask.call'\n\t[C]: in function 'pcall'\n\
            \tltask/root_client.lua:28: in upvalue 'ask_root'\n\tx.lua:1: in main chunk\n\t[C]: in ?";
        assert_eq!(without_library(message), "boom\nstack traceback:\n\tx.lua:1: in main chunk");
    }

    #[test]
    fn a_traceback_without_frames_of_the_program_loses_its_heading() {
        let message = "boom\nstack traceback:\n\t[C]: in function 'error'\n\tlio/misuse.lua:53: in upvalue 'f'";
        assert_eq!(without_library(message), "boom");
        assert_eq!(without_library("only\na message\n\twith a tab"), "only\na message\n\twith a tab");
    }
}
